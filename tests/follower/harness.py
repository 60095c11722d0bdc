"""A real follower process over a real metastore, and the comparison of what it cached with what the metastore says.

The oracle's answers are decoded without any knowledge of types, the cache's bytes too: field by field, set and unset.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

from hms_cache_proxy.cache import targets
from hms_cache_proxy.cache.entries import ABSENT
from hms_cache_proxy.cache.reader import CacheReader
from hms_cache_proxy.cache.snapshot import CacheSnapshot
from hms_cache_proxy.cache.state import Slot, StatePage
from hms_cache_proxy.config import Config, load, paths, to_json
from hms_cache_proxy.consistency.fences import FenceStore
from tests.store.oracle import Oracle, Refused, hms
from tests.testbed import ledger
from tests.testbed.untyped import decode_struct

CATALOG = b"hive"
LONG_S = 60.0
LONG_MS = 3_600_000
"""max_unconfirmed_ms where nothing is tested of it: longer than the machine may take between a step and a read."""


class Followed:
    """A data directory, and a follower process on it that can be killed and started again."""

    def __init__(self, directory: Path, **settings: object) -> None:
        """`settings` by their dotted keys, dots as two underscores."""
        directory.mkdir(mode=0o700, exist_ok=True)
        given = {key.replace("__", "."): value for key, value in settings.items()}
        self.config: Config = load(cli={"data_dir": str(directory), "max_unconfirmed_ms": LONG_MS, **given})
        self.page = StatePage(paths.state(self.config), create=True)
        self.fences = FenceStore(paths.fences(self.config), self.page)
        self.reader = CacheReader(paths.cache(self.config), self.page)
        self.log = directory / "follower.log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> Followed:
        with ledger.starting(ledger.FOLLOWER), self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "hms_cache_proxy.processes.child", "follower", "0", str(os.getpid())],
                stdin=subprocess.PIPE,
                stderr=log,
                stdout=log,
            )
        assert self.process.stdin is not None
        paths.metrics(self.config).mkdir(exist_ok=True)
        self.process.stdin.write(to_json(self.config))
        self.process.stdin.close()
        return self

    def kill(self, number: int = signal.SIGKILL) -> int:
        """End the process; its exit status."""
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(LONG_S)

    def __enter__(self) -> Followed:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()
        self.reader.close()
        self.fences.close()
        self.page.close()
        if kind is not None:
            sys.stderr.write(self.log.read_text()[-8000:])
        shutil.rmtree(self.config.data_dir, ignore_errors=True)

    # --- waiting

    def until(self, condition: Callable[[], bool], timeout_s: float = LONG_S) -> None:
        deadline_s = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline_s, self.log.read_text()[-4000:]
            assert self.process is None or self.process.poll() is None, self.log.read_text()[-4000:]
            time.sleep(0.001)

    def confirmed(self, timeout_s: float = LONG_S) -> None:
        """A step that began after now is published: whatever was changed before now is in the cache."""
        now_ns = time.monotonic_ns()
        self.until(lambda: self.page[Slot.BEGAN_NS] > now_ns, timeout_s)

    def loaded(self, timeout_s: float = LONG_S) -> None:
        """... nothing is left to load, and it is decided whether it may be served."""
        self.confirmed(timeout_s)
        self.confirmed(timeout_s)  # what a step leaves to load is told after it is confirmed, and before the next
        self.until(self._complete, timeout_s)

    def _complete(self) -> bool:
        words = self.page.words
        return self.page.prewarmed and words[Slot.PREWARM_TABLES_DONE] == words[Slot.PREWARM_TABLES_TOTAL]

    def report(self) -> dict[str, Any]:
        """What the follower wrote for /status; nothing before its first turn is over."""
        path = paths.follower_report(self.config)
        found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        return found

    def ticket(self, *wanted: bytes) -> None:
        """Ask for a reload and wait until it is done."""
        number = self.fences.ticket(wanted)
        self.until(lambda: self.page[Slot.DONE_TICKET] >= number)


class Comparison:
    """Every object of some databases, from the cache and from the metastore."""

    def __init__(self, followed: Followed, oracle: Oracle, prefix: str, *, databases: bool = True) -> None:
        """`databases` False: not their objects, which Hive 2.3 changes without an event."""
        self.compare_databases = databases
        self.followed = followed
        self.oracle = oracle
        self.prefix = prefix
        self.tables = 0
        self.partitions = 0

    def databases(self) -> list[str]:
        return [name.decode() for name in self.oracle.get_databases(pattern=self.prefix + "*")]

    def all(self, *, not_loaded: Iterable[bytes] = ()) -> None:
        """Equal, all of it; tables in `not_loaded` (database.table) may be, and must be, not loaded."""
        names = self.databases()
        left_out = frozenset(not_loaded)
        with self.followed.reader.snapshot() as cache:
            cached = cache.database_list(CATALOG)
            assert cached is not None
            mine = [name.decode() for name in cached if name.startswith(self.prefix.encode())]
            assert mine == sorted(names)
            for name in names:
                self.database(cache, name, left_out)

    def database(self, cache: CacheSnapshot, name: str, left_out: frozenset[bytes]) -> None:
        entry = cache.database(CATALOG, name.encode())
        assert entry is not None and entry is not ABSENT
        if self.compare_databases:
            assert decode_struct(entry.body) == self.oracle.get_database(name=name)
        assert cache.complete(targets.tables(CATALOG, name.encode()))
        tables = cache.table_list(CATALOG, name.encode())
        assert tables is not None
        names = sorted(self.oracle.get_all_tables(db_name=name))
        assert [table for table, *_ in tables] == names
        for table in names:
            self.table(cache, name, table, left_out)

    def table(self, cache: CacheSnapshot, database: str, name: bytes, left_out: frozenset[bytes]) -> None:
        entry = cache.table(CATALOG, database.encode(), name)
        assert entry is not None and entry is not ABSENT, name
        if b"%b.%b" % (database.encode(), name) in left_out:
            assert entry.body is None, (name, entry.reason_not_loaded)
            return
        assert entry.body is not None, (database, name, entry.reason_not_loaded)
        if entry.transactional:  # read as the store's own suite reads them; nothing of them is served yet
            return
        cached, answer = decode_struct(entry.body), self.answer(database, name.decode())
        assert cached == answer, (name, differences(cached, answer))
        self.tables += 1
        if entry.partition_keys:
            assert entry.partitions_loaded, (name, entry.reason_not_loaded)
            self.parts(cache, database, name.decode(), entry)

    def answer(self, database: str, name: str) -> Any:
        """The table by get_table_req; insert-only tables are refused without the capability."""
        every = hms.ClientCapabilities(values=[hms.ClientCapability.INSERT_ONLY_TABLES])
        request = hms.GetTableRequest(dbName=database, tblName=name)
        try:
            return self.oracle.get_table_req(req=request)[1][1]
        except Refused:
            request.capabilities = every
            return self.oracle.get_table_req(req=request)[1][1]

    def parts(self, cache: CacheSnapshot, database: str, name: str, entry: Any) -> None:
        try:
            found = self.oracle.get_partitions(db_name=database, tbl_name=name, max_parts=-1)
        except Refused as refused:
            raise AssertionError(f"get_partitions {database}.{name}: {refused}") from refused
        names = self.oracle.get_partition_names(db_name=database, tbl_name=name, max_parts=-1)
        cached = cache.partition_names(entry)
        assert cached == sorted(names)
        bodies = cache.partitions(entry, cached)
        mine = [decode_struct(body) for body in bodies if body is not None]
        key = lambda one: [value for value in one[1][1]]  # noqa: E731
        assert sorted(mine, key=key) == sorted(found, key=key), name
        self.partitions += len(mine)


def differences(left: Any, right: Any) -> Any:
    """Where two decoded structs differ, by field id."""
    if not (isinstance(left, dict) and isinstance(right, dict)):
        return left, right
    keys = [key for key in {**left, **right} if left.get(key) != right.get(key)]
    return {key: differences(left.get(key), right.get(key)) for key in keys}
