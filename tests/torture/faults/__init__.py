"""The kinds of faults. A module has those of one part of the world, each breaks something and mends it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.torture.faults import clients, files, floods, log, network, processes
from tests.torture.faults.kinds import KINDS, Kind

MODULES = (clients, files, floods, log, network, processes)


def every(only: Sequence[str] | None = None) -> Mapping[str, Kind]:
    """All kinds, or those of these names. KeyError for one that is not there."""
    return KINDS if only is None else {name: KINDS[name] for name in only}
