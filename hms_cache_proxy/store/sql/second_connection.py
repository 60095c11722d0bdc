"""A second connection to the database, in the same snapshot as the first.

Job: read one part of a large question while the rows of the other part are turned into records, because a connection
waits for the server without Python's lock. It joins a snapshot when it is first needed there, and is closed after a
snapshot that did not need it. Must not know: what is read.

Invariants:
- Both see one state: the first connection exports its snapshot, and the second imports it. A database that exports none
  has no second connection.
- While the other thread works, only it uses the second connection; `of_both` returns when it has ended.
- Without it, the first connection reads everything. If it cannot be opened, or the snapshot cannot be exported (then
  the snapshot ends with an error), it is tried again after AGAIN_S.

Owner: the store's one thread, and one thread that works for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from itertools import chain, zip_longest
from typing import Final, TypeVar

import structlog

from hms_cache_proxy.errors import StoreError
from hms_cache_proxy.store.sql.dialect import Dialect

AGAIN_S: Final = 60.0
_NOTHING: Final = "SELECT 1"
_SIGN_OF_LIFE_S: Final = 1.0

_Item = TypeVar("_Item")
_Found = TypeVar("_Found")
_log = structlog.get_logger(__name__)


class SecondConnection:
    """`first` has the snapshots. `another` makes a connection to the same database, which is opened at its first use,
    and gets what to call after each answer. `answered` is called after answers of both, by the store's thread."""

    def __init__(
        self, first: Dialect, another: Callable[[Callable[[], None]], Dialect], answered: Callable[[], None]
    ) -> None:
        self._first = first
        self._second = another(self._count)
        self._answered = answered
        self._answers = 0
        self._snapshot: ExitStack | None = None
        self._joined = False
        self._from_s = 0.0
        self._thread = ThreadPoolExecutor(1, "second-connection")

    @contextmanager
    def within(self) -> Iterator[None]:
        """Around the use of a snapshot of the first connection."""
        try:
            with ExitStack() as self._snapshot:
                yield
            if not self._joined:
                self._second.close()
        finally:
            self._snapshot, self._joined = None, False

    def joined(self) -> Dialect | None:
        """The second connection, which sees what the snapshot sees; None if there can be none now."""
        if self._joined:
            return self._second
        if self._snapshot is None or time.monotonic() < self._from_s:
            return None
        self._from_s = time.monotonic() + AGAIN_S
        name = self._first.export_snapshot()
        if name is None:
            self._from_s = float("inf")
            return None
        self._second.import_snapshot(name)
        try:
            self._snapshot.enter_context(self._second.snapshot(_NOTHING))
        except StoreError as error:
            _log.warning("no second connection to the metastore's database; loading takes longer", error=str(error))
            return None
        self._joined, self._from_s = True, 0.0
        return self._second

    def of_both(
        self, own: Callable[[_Item], list[_Found]], other: Callable[[_Item], list[_Found]], items: Sequence[_Item]
    ) -> list[_Found]:
        """What is found for these items, in order: for every second one by `other`, which uses the second connection,
        for the others by `own`. Raises what either raises."""
        futures = [self._thread.submit(other, item) for item in items[1::2]]
        try:
            mine = [own(item) for item in items[::2]]
            theirs = [self._waited_for(future) for future in futures]
        finally:
            for future in futures:
                future.cancel()
            wait(futures)
        return list(chain.from_iterable(chain.from_iterable(zip_longest(mine, theirs, fillvalue=[]))))

    def _waited_for(self, future: Future[_Found]) -> _Found:
        while not wait([future], _SIGN_OF_LIFE_S).done:
            if self._answers:
                self._answers = 0
                self._answered()
        return future.result()

    def _count(self) -> None:
        self._answers = 1

    def close(self) -> None:
        """End the thread and the connection."""
        self._thread.shutdown()
        self._second.close()
