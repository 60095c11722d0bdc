"""Decides whether the statistics of a transactional table are valid for a reader that sends a ValidWriteIdList.

Job: make this decision from the write id and the parameters of a table or partition. Must not know: requests, the
cache.

The rule of Hive 4 (ObjectStore.isCurrentStatsValidForTheQuery, compared with a running 4.2.0): statistics that were
written without a write id are valid. Others are if their basic statistics are accurate and the reader sees their write.
Parameters that are not written as Hive writes them are declined.
Owner: the worker's loop.
"""

from __future__ import annotations

import json
from functools import cache, lru_cache
from typing import Any, Final

from hms_cache_proxy.consistency.gate import Reason
from hms_cache_proxy.errors import WriteIdsError
from hms_cache_proxy.methods import projections
from hms_cache_proxy.store.write_ids import ValidWriteIdList
from hms_cache_proxy.wire.spec import Struct, decode

from .base import Decline

ACCURATE: Final = b"COLUMN_STATS_ACCURATE"
"""The parameter that says which statistics are accurate."""
LONGEST_LIST: Final = 100_000
"""Bytes of a list that is parsed (2 ms), about 10,000 writes that the reader does not see. A longer one is declined."""
_BASIC: Final = "BASIC_STATS"
_COLUMNS: Final = "COLUMN_STATS"


class ListReader:
    """A reader with this list, or without one: then all statistics are valid."""

    __slots__ = ("_list",)

    def __init__(self, text: bytes | None) -> None:
        """Declines a text that is no list, or too long."""
        if text is not None and len(text) > LONGEST_LIST:
            raise Decline(Reason.ARGUMENTS)
        try:
            self._list = None if text is None else ValidWriteIdList.parse(text)
        except WriteIdsError:
            raise Decline(Reason.ARGUMENTS) from None

    @property
    def asks(self) -> bool:
        """Does the reader send a list?"""
        return self._list is not None

    def accepts_table(self, body: bytes) -> bool:
        """Are the statistics of this `Table` valid? Declines."""
        return self.accepts(written("Table", body))

    def accepts_partition(self, body: bytes) -> bool:
        """Are the statistics of this `Partition` valid? Declines."""
        return self.accepts(written("Partition", body))

    def accepts(self, owner: Struct) -> bool:
        """The same of the result of `written`."""
        if self._list is None or owner.writeId is None or owner.writeId < 1:
            return True
        accurate = (owner.parameters or {}).get(ACCURATE)
        return accurate is not None and _basic(accurate) and self._list.is_valid(owner.writeId)


def written(kind: str, body: bytes) -> Struct:
    """The write id and the parameters of a `Table` or `Partition`."""
    return decode(_shape(kind), body, 0)[0]


@cache
def _shape(kind: str) -> type[Struct]:
    return projections.struct_projection(kind, ("writeId", "parameters"))


@lru_cache(maxsize=1024)
def _basic(text: bytes) -> bool:
    """Does this value of ACCURATE say that basic statistics are accurate?"""
    try:
        said: Any = json.loads(text)
    except (ValueError, RecursionError):
        raise Decline(Reason.ARGUMENTS) from None
    if not isinstance(said, dict) or not said.keys() <= {_BASIC, _COLUMNS}:
        raise Decline(Reason.ARGUMENTS)
    basic = said.get(_BASIC, "false")
    if basic not in ("true", "false"):
        raise Decline(Reason.ARGUMENTS)
    return bool(basic == "true")
