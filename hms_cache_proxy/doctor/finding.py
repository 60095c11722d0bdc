"""What the doctor found: one line, how bad it is, and what to do about it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import Enum


class Severity(Enum):
    """OK and NOTE need nothing; WARNING costs something; ERROR keeps the cache, or the proxy, from working."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """`subject` is what was looked at (metastore thrift://..., database, data directory, machine)."""

    subject: str
    level: Severity
    text: str
    advice: str = ""

    @property
    def bad(self) -> bool:
        """Does the doctor's exit code say so?"""
        return self.level is Severity.ERROR

    def as_dict(self) -> dict[str, str]:
        return {**asdict(self), "level": self.level.value}
