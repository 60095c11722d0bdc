"""A finding of the doctor: one line, how serious it is, and what to do about it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import Enum


class Severity(Enum):
    """OK and NOTE need no action; WARNING has a cost; ERROR keeps the cache, or the proxy, from working."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """`subject` is what was checked: the URI of a metastore, the database, the data directory, the machine."""

    subject: str
    level: Severity
    text: str
    advice: str = ""

    @property
    def bad(self) -> bool:
        """Whether the doctor's exit code reports it."""
        return self.level is Severity.ERROR

    def as_dict(self) -> dict[str, str]:
        return {**asdict(self), "level": self.level.value}
