"""What an audit compares: which catalog, how much of it, and where the differences go; samples.

Job: hold these values. Must not know: how objects are compared. Owner: the driver's process.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Final

from hms_cache_proxy.config import Config
from hms_cache_proxy.pipeline.audit_progress import AuditProgress
from hms_cache_proxy.pipeline.ranges import PartitionStretch, TableStretch
from hms_cache_proxy.store.protocol import StoreIdentity

ROUND_COST: Final = 25_000
"""Partitions of a round, without Spark."""

_HASH_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class Sample:
    """A `share` of the tables, and of the stretches of large tables: by a hash of their names and `seed`."""

    share: float = 1.0
    seed: int = 0

    def tables(self, stretches: Sequence[TableStretch]) -> list[TableStretch]:
        """The tables of the sample."""
        if self.share >= 1:
            return list(stretches)
        found = []
        for stretch in stretches:
            some = tuple(table for table in stretch.tables if self.takes(*stretch.database, table.name))
            if some:
                found.append(replace(stretch, tables=some))
        return found

    def partitions(self, stretches: Sequence[PartitionStretch]) -> list[PartitionStretch]:
        """All partitions of small tables of the sample, and stretches of large ones. `partitions` of a stretch remains
        the number before it was sampled."""
        if self.share >= 1:
            return list(stretches)
        found = []
        for stretch in stretches:
            if stretch.after is None and stretch.until is None:
                some = tuple(table for table in stretch.tables if self.takes(*table.key))
                if some:
                    found.append(replace(stretch, tables=some))
            elif self.takes(*stretch.tables[0].key, stretch.after or b"", b""):
                found.append(stretch)
        return found

    def takes(self, *names: bytes) -> bool:
        """Whether an object of this name is in the sample."""
        digest = hashlib.sha256(b"%d\0%b" % (self.seed, b"\0".join(names))).digest()
        return int.from_bytes(digest[:_HASH_BYTES], "big") < self.share * float(1 << 8 * _HASH_BYTES)


@dataclass(frozen=True, slots=True)
class AuditPlan:
    """What to compare. `out`: URI of a directory for the differences, or empty; `resume`: continue the audit there."""

    config: Config
    out: str = ""
    sample: Sample = Sample()
    resume: bool = False

    def progress(self, identity: StoreIdentity, proxy: str) -> AuditProgress:
        """`proxy`: its URI, or its data directory. Raises AuditError if `out` is in use, or has another audit."""
        config = self.config
        of = {
            "identity": asdict(identity),
            "include": list(config.include),
            "exclude": list(config.exclude),
            "sample": asdict(self.sample),
            "proxy": proxy,
        }
        return AuditProgress(self.out, of, resume=self.resume)
