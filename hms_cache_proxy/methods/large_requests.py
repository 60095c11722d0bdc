"""Reads requests in slices if their arguments take longer to read than one turn of the loop may last, and then decides
them.

Job: `decided` wraps a dispatcher's `decide`. It reads what the decision needs of the arguments, a slice of SLICE_NS in
each turn, and adds this to the call, so that no dispatcher that the call comes to reads them again. Must not know:
dispatchers, the cache. The bounds are those of method_plan.py: a write beyond them touches everything, and a read
beyond them goes to the metastore. Owner: the worker's loop.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from time import perf_counter_ns
from typing import Final, TypeVar

from .decision import ClientCall, Decision, Work

_Found = TypeVar("_Found")

WHOLE_BYTES: Final = 4 << 10
"""Shorter requests have few elements and are read in one go."""
SLICE_NS: Final = 1_000_000


def decided(decide: Callable[[ClientCall], Decision], call: ClientCall) -> Decision:
    """What `decide` returns for a call; for a large one, after its arguments have been read."""
    if len(call.message) <= WHOLE_BYTES or not call.complete or call.plan is None or call.understood is not None:
        return decide(call)
    understanding = call.plan.understand(call.message, call.header.body)

    def step() -> Decision | None:
        understood = run_slice(understanding)
        return None if understood is None else decide(call._replace(understood=understood))

    return step() or Work(step)


def run_slice(work: Generator[object, None, _Found]) -> _Found | None:
    """Run the work for one slice; its result, which is not None, if it has ended."""
    until_ns = perf_counter_ns() + SLICE_NS
    try:
        while True:
            next(work)
            if perf_counter_ns() >= until_ns:
                return None
    except StopIteration as done:
        found: _Found = done.value
        return found
