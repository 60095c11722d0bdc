"""Transactions, readers with lists and readers of external tables, at the metastore's port and the proxies' ports.

Calls come in Hive's order: open_txns, get_open_txns, allocate_table_write_ids, get_valid_write_ids, reads, changes,
reads of what was changed, commit_txn or abort_txn. A transaction calls one server, and now and then another.
Transactions that lost their connection are aborted at the metastore: nothing stays open.
"""

from __future__ import annotations

import random
import time
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import replace

from tests.history.checker import Write
from tests.history.registers import ABSENT, Register, Torn
from tests.history.threads import LOST, Connections, Job
from tests.history.workload import UNREADABLE, Workload
from tests.testbed.client import MetastoreClient
from tests.write_ids import history_hive as hive
from tests.write_ids.history_checker import WriteIdChecker
from tests.write_ids.history_hive import Scope
from tests.write_ids.history_names import Recreated, Renamed
from tests.write_ids.history_tables import Hidden, Under, Way, Written

NAMED = (Renamed, Recreated)
"""Tables that a proxy may not know under their name, or as transactional: reads of them are as those of any table."""

REMEMBERED = 20
"""Scopes of a table that readers use again: lists that are no longer new, names and ids that were once right."""


class Transacting(Workload):
    """Threads over `ports` (the first is the metastore's own)."""

    checker: WriteIdChecker

    def __init__(
        self,
        tables: Sequence[Written],
        external: list[Register],
        checker: WriteIdChecker,
        ports: list[int],
        *,
        strict: bool = False,
    ) -> None:
        """`strict`: some reads bring no proof, and must see all that was written anywhere before they began."""
        super().__init__(external, checker, ports)
        self._strict = strict
        self.tables = tables
        self._recreated = [table for table in tables if isinstance(table, Recreated)]
        self._transacted = [table for table in tables if not isinstance(table, Recreated)]
        self._scopes: dict[str, deque[Scope]] = defaultdict(lambda: deque(maxlen=REMEMBERED))

    def begin(self, *, transactions: int = 3, readers: int = 6) -> None:
        jobs: list[Job] = [self._write_once, self._recreate_once, self._recreate_once, self._read_log_once]
        jobs += [self._transact_once] * transactions + [self._look_once] * readers
        self.run(jobs)

    # -- writing -------------------------------------------------------------------------------------------------
    def _transact_once(self, connections: Connections) -> None:
        table, port = self.pick(self.tables)
        if table not in self._transacted:
            table = random.choice(self._transacted)
        wanted = {table, random.choice(self._transacted)}
        held = [one for one in wanted if one.shared or one.lock.acquire(blocking=False)]
        try:
            if held:
                self._transact(connections, port, held)
        finally:
            for one in held:
                if not one.shared:
                    one.lock.release()

    def _transact(self, connections: Connections, port: int, tables: list[Written]) -> None:
        try:
            transaction = hive.open_transaction(connections.get(port))
        except LOST as error:
            return self.lost(connections, port, error, "open")
        ended = False
        try:
            transactions = hive.valid_transactions(connections.get(port), transaction)
            last: tuple[Written, Under] | None = None
            for table in tables:
                under = self._begin_write(connections, port, table, transaction, transactions)
                if not table.ends:
                    self._change(connections, self._sometimes_other(port), table, under, transactions)
                else:
                    last = table, under
            ended = self._end(connections, port, transaction, last)
        except LOST as error:
            self.lost(connections, port, error, "transaction")
        finally:
            if not ended:
                self._abort(connections, transaction)

    def _sometimes_other(self, port: int) -> int:
        return random.choice(self.ports) if random.random() < 0.3 else port

    def _begin_write(
        self, connections: Connections, port: int, table: Written, transaction: int, transactions: str
    ) -> Under:
        client = connections.get(port)
        write_id = hive.allocate(client, table.database, table.current, transaction)
        scope = table.scope(client, transactions)
        assert scope.valid.shows(write_id), f"{write_id} is its own transaction's: {scope}"
        self._own_looks(connections, table, scope)
        return Under(transaction, write_id, scope)

    def _change(self, connections: Connections, port: int, table: Written, under: Under, transactions: str) -> None:
        if table.shared:
            with table.lock:
                made = self._make(connections, port, table, under)
        else:
            made = self._make(connections, port, table, under)
        if made and not table.shared:  # its name is another one
            self._own_looks(connections, table, table.scope(connections.get(self.ports[0]), transactions))
        self._own_looks(connections, table, under.scope)

    def _make(self, connections: Connections, port: int, table: Written, under: Under | None) -> bool:
        """Write the next version; the caller has the lock."""
        version = table.version + 1
        write: Write | None = None
        try:
            client = connections.get(port)
            write = self.checker.begin(table.key, version, port, time.monotonic_ns())
            if under is not None:
                self.checker.trying(under.scope.table_id, under.write_id, version)
                if table.ends:  # valid only if it is made
                    self.checker.wrote(under.scope.table_id, under.write_id, version)
            table.write(client, version, under)  # type: ignore[arg-type]  # Recreated is in no transaction
        except LOST as error:
            self.lost(connections, port, error, f"{type(table).__name__}")
            if write is not None:
                table.version = self._state(connections, table, version)
            return False
        self.checker.end(write, time.monotonic_ns())
        table.version = version
        if under is not None and not table.ends:
            self.checker.wrote(under.scope.table_id, under.write_id, version)
        self.count(f"{type(table).__name__} written")
        if random.random() < 0.3:
            write.event_id = connections.get(self.ports[0]).get_current_notificationEventId().eventId
        return True

    def _state(self, connections: Connections, table: Written, version: int) -> int:
        """The version after a write with unknown outcome, once nothing of it is under way any more."""
        for _ in range(5):
            time.sleep(1.0)
            try:
                found = table.state(connections.get(self.ports[0]))
            except LOST as error:  # the metastore, asked in the middle of a change
                self.lost(connections, self.ports[0], error, "state")
            else:
                return (version if version % 2 else version - 1) if found == ABSENT else found
        raise AssertionError(f"{table.key} cannot be read")

    def _end(self, connections: Connections, port: int, transaction: int, last: tuple[Written, Under] | None) -> bool:
        if random.random() < 0.2:
            hive.abort(connections.get(port), transaction)
            self.count("aborted")
            return True
        if last is None:
            hive.commit(connections.get(port), transaction)
        elif not self._make(connections, port, *last):
            return False
        self.count("committed")
        return True

    def _abort(self, connections: Connections, transaction: int) -> None:
        """A transaction whose end is not known, at the metastore: it may have been committed."""
        try:
            hive.abort(connections.get(self.ports[0]), transaction)
        except LOST as error:
            self.lost(connections, self.ports[0], error, "abort")

    def _recreate_once(self, connections: Connections) -> None:
        """Mostly dropped and made again at once, and read wherever, by somebody who knows."""
        table, port = self.pick(self.tables)
        if table not in self._recreated:
            table = random.choice(self._recreated)
        if table is self._recreated[0]:
            port = self.ports[0]  # no proxy ever knows of it before it is followed
        with table.lock:
            made = self._make(connections, port, table, None)
            if made and table.version % 2 and random.random() < 0.7:
                made = self._make(connections, port, table, None)
            if made and not table.version % 2:
                direct = connections.get(self.ports[0])
                self._own_looks(connections, table, table.scope(direct, hive.valid_transactions(direct)))
        self._stop.wait(random.uniform(0.0, 0.1))

    # -- reading -------------------------------------------------------------------------------------------------
    def _own_looks(self, connections: Connections, table: Written, scope: Scope) -> None:
        """What the transaction itself sees, wherever it looks."""
        for port in random.choices(self.ports, k=random.randint(1, 3)):
            try:
                client = connections.get(port)
            except LOST as error:
                return self.lost(connections, port, error, "connect")
            if not self._look(client, table, random.choice(table.ways()), scope, port, {}):
                connections.drop(port)
        return None

    def _look_once(self, connections: Connections) -> None:
        """A few connections ask the same one after the other: what one was told must not harm the others."""
        port = random.choice(self.ports)
        try:
            clients = [connections.get(port, number) for number in range(random.randint(1, 3))]
            transactions = hive.valid_transactions(clients[0])
        except LOST as error:
            return self.lost(connections, port, error, "connect")
        seen: list[dict[str, int]] = [{} for _ in clients]
        for _ in range(random.randint(1, 10)):
            if self._stop.is_set():
                break
            if random.random() < 0.2:
                register, _ = self.pick(self.registers)
                going = self._read(clients[0], register, random.choice(register.ways()), port, seen[0])
            else:
                table, _ = self.pick(self.tables)
                going = self._look_at(clients, seen, table, transactions, port)
            if not going:
                return connections.drop(port)
            if random.random() < 0.5:
                transactions = hive.valid_transactions(connections.get(self.ports[0]))
        if random.random() < 0.5:
            connections.drop(port)
        return None

    def _look_at(
        self,
        clients: list[MetastoreClient],
        seen: list[dict[str, int]],
        table: Written,
        transactions: str,
        port: int,
    ) -> bool:
        scopes = self._scopes[table.key]
        if scopes and random.random() < 0.25:
            scope = random.choice(scopes)
        else:
            try:
                scope = table.scope(clients[0], transactions)
            except LOST as error:
                self.count(f"list failed: {type(error).__name__}")
                return False
            scopes.append(scope)
        for _ in range(random.randint(1, 3)):
            way = random.choice(table.ways())
            for client, before in zip(clients, seen, strict=True):
                if not self._look(client, table, way, scope, port, before):
                    return False
            clients.reverse()
            seen.reverse()
        return True

    def _look(
        self, client: MetastoreClient, table: Written, way: Way, scope: Scope, port: int, seen: dict[str, int]
    ) -> bool:
        """Ask and check; False if the connection is lost."""
        strict = self._strict and not isinstance(table, NAMED) and random.random() < 0.5
        if strict:
            scope = replace(scope, brings=random.choice(("list", "nothing")))
        began_ns = time.monotonic_ns()
        required = max(
            self.checker.required(table.key, port, began_ns, strict=strict),
            self.checker.proved(scope),
            table.required(scope),
        )
        before = seen.get(table.key, 0)
        try:
            version = way.shown(way.ask(client, scope))
        except Torn:
            self.count("torn reads, direct" if port == self.ports[0] else "torn reads, proxied")
            return True
        except Hidden:
            self.count("hidden reads")
            if not self.checker.may_hide(scope, required):
                self.checker.violated(table.key, port, way.name, f"shows nothing to {scope}, required {required}")
            return True
        except UNREADABLE as error:
            self.checker.violated(table.key, port, way.name, f"no version can be read for {scope}: {error!r}")
            return True
        except LOST as error:
            self.count(f"{way.name} failed: {type(error).__name__} {getattr(error, 'message', '')!s:.60}")
            return False
        ended_ns = time.monotonic_ns()
        if version == ABSENT:
            version = table.absent(scope, max(required, before))
        how = f"{way.name} with {scope.valid.text} of {scope.table_id}, of which it brings {scope.brings}"
        self.checker.read(table.key, port, version, required=required, seen=before, ended_ns=ended_ns, how=how)
        seen[table.key] = max(version, before)
        self.count("looks")
        return True
