"""The kinds of faults. A module has those of one part of the world, each a function that breaks it and mends it again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.torture.faults import processes
from tests.torture.faults.kinds import KINDS, Kind

MODULES = (processes,)


def every(only: Sequence[str] | None = None) -> Mapping[str, Kind]:
    """All kinds, or those of these names. KeyError for one that is not there."""
    return KINDS if only is None else {name: KINDS[name] for name in only}
