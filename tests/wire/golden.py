"""The recorded messages (capture.py) as values."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Recorded:
    """One message as a real peer sent it."""

    version: str
    kind: str  # call or reply
    method: str
    data: bytes

    def __str__(self) -> str:
        return f"{self.version}-{self.kind}-{self.method}"


def _read(path: Path) -> list[Recorded]:
    version = path.stem.removeprefix("hive-")
    rows = (line.split(" ") for line in path.read_text(encoding="ascii").splitlines())
    return [Recorded(version, kind, method, bytes.fromhex(data)) for kind, method, data in rows]


FOLDER = Path(__file__).parent / "captured"
RECORDED = [message for path in sorted(FOLDER.glob("hive-*.txt")) for message in _read(path)]
assert RECORDED


def recorded(version: str, kind: str, method: str) -> list[Recorded]:
    """The messages of one method, in order."""
    return [m for m in RECORDED if (m.version, m.kind, m.method) == (version, kind, method)]
