"""`audit --proxy`: compares what a proxy answers over Thrift with the database, from any machine.

    names, from the database -> tables and partitions, in rounds: read from the database, read from the proxy -> what
    differs is read again, from both, until it agrees or stands still

Job: carry out this sequence. The proxy is asked as a client asks; it answers some calls from its cache and relays the
others, and both answers must agree with the database. Must not know: the cache, which is on another machine.

There is no common event: a proxy is a little behind the database, and both change between two reads. So an object
counts as different only if it still differs after `settle_s`, and the database's object has been the same all the time.
An object that never stops changing is counted separately, and is no difference.

Not compared, because no list over Thrift has them: constraints and statistics.

Owner: one process, with one connection to the database and one to the proxy.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final

from hms_cache_proxy.cache.segments import TableNames
from hms_cache_proxy.config import Address
from hms_cache_proxy.errors import AuditError, Unfit
from hms_cache_proxy.follower.load_queue import UNFIT
from hms_cache_proxy.pipeline.audit_plan import ROUND_COST, AuditPlan
from hms_cache_proxy.pipeline.audit_progress import AuditProgress, AuditResult
from hms_cache_proxy.pipeline.compare import assembled, differing
from hms_cache_proxy.pipeline.findings import DIFFERENT, EXTRA, MISSING, Difference, FindingsSink, TaskResult, text
from hms_cache_proxy.pipeline.progress import JobReport, reported
from hms_cache_proxy.pipeline.ranges import (
    Partitioned,
    PartitionStretch,
    TableStretch,
    partition_stretches,
    table_stretches,
)
from hms_cache_proxy.pipeline.rounds import rounds
from hms_cache_proxy.pipeline.session import phase
from hms_cache_proxy.pipeline.tasks import STATEMENT_TIMEOUT_S, records_of
from hms_cache_proxy.plurals import counted, fitting
from hms_cache_proxy.security.metastore_security import PLAIN, MetastoreSecurity
from hms_cache_proxy.store.protocol import DatabaseKey, PartitionRecord, Snapshot, TableKey, TableRecord
from hms_cache_proxy.store.sql.store import SqlStore, open_sql_store
from hms_cache_proxy.store.thrift.store import ThriftStore, open_thrift_store

SETTLE_S: Final = 10.0
"""Longer than a proxy is behind its database."""

FIRST_PAUSE_S: Final = 0.5

ObjectKey = tuple[bytes, ...]
"""(catalog, database), that and a table, or that and a partition."""

DATABASE, LISTED, TABLE, PARTITION = "Database", "listed", "Table", "Partition"
"""What is compared: structs, and whether a table is in the list of its database."""

_KINDS: Final = {DATABASE: "database", LISTED: "table", TABLE: "table", PARTITION: "partition"}


@dataclass(slots=True)
class Pair:
    """An object, encoded (nothing for a name in a list): the database's and the proxy's; None: there is none. `moved`:
    the database's was another one when they were read before."""

    stored: bytes | None
    seen: bytes | None
    moved: bool = False


Pairs = dict[ObjectKey, Pair]


@dataclass(frozen=True, slots=True)
class ProxyAudit:
    """One audit of the proxy at `address`. `secured`: TLS and a login, if it asks for them. `settle_s`: how long an
    object may differ before it counts; `round_cost`: of what is compared before that is waited for."""

    plan: AuditPlan
    address: Address
    report: JobReport
    secured: MetastoreSecurity = PLAIN
    settle_s: float = SETTLE_S
    round_cost: int = ROUND_COST

    def run(self) -> AuditResult:
        """Compare what is in the plan. Raises StoreError, AuditError."""
        place = [(self.address.host, self.address.port)]
        with (
            closing(open_sql_store(self.plan.config.store_url, statement_timeout_s=STATEMENT_TIMEOUT_S)) as store,
            closing(open_thrift_store(place, secured=self.secured)) as proxy,
        ):
            if proxy.identity.database_uuid != store.identity.database_uuid:
                raise AuditError(f"{self.address.uri} is of another database than store_url")
            progress = self.plan.progress(store.identity, self.address.uri)
            return _Comparing(self, progress, store, proxy).run()


@dataclass
class _Comparing:
    """A running audit. `suspects`: objects that differ, by kind; `result`: what was compared since the last round."""

    audit: ProxyAudit
    progress: AuditProgress
    store: SqlStore
    proxy: ThriftStore
    suspects: dict[str, Pairs] = field(default_factory=lambda: defaultdict(dict))
    result: TaskResult = field(default_factory=TaskResult)

    def run(self) -> AuditResult:
        with self.store.snapshot() as snapshot:
            self.progress.at(snapshot.event_id)
            databases = snapshot.database_names()
            stretches = table_stretches(snapshot, databases, self.audit.plan.config.selection)
        if not self.progress.lists_compared:
            with phase("lists", self.audit.report, AuditError):
                with self.proxy.snapshot() as seen:
                    everywhere = sorted({*databases, *seen.database_names()})
                self._suspect(DATABASE, self._databases(everywhere))
                self._suspect(LISTED, self._lists(everywhere))
                self.result.compared["databases"] = len(databases)
                self.progress.lists_done(self._settled())
        sampled = self.audit.plan.sample.tables(stretches)
        self._rounds("tables", self.progress.tables_left(sampled), self._table_round, self.progress.tables_done)
        with self.store.snapshot() as snapshot:
            partitioned = partition_stretches(self.store, snapshot, list(_tables_of(stretches)))
        parts = self.progress.partitions_left(self.audit.plan.sample.partitions(partitioned))
        self._rounds("partitions", parts, self._partition_round, self.progress.partitions_done)
        with self.store.snapshot() as snapshot:
            self.progress.at(snapshot.event_id)
        return self.progress.end()

    def _rounds(
        self,
        kind: str,
        stretches: Sequence[Any],
        compare: Callable[[Sequence[Any]], None],
        done: Callable[[Sequence[Any], Sequence[TaskResult]], None],
    ) -> None:
        report, cost = self.audit.report, self.audit.round_cost
        with phase(kind, report, AuditError):
            for some in reported(report, kind, rounds(stretches, cost) if stretches else []):
                compare(some)
                done(some, [self._settled()])

    # --- rounds

    def _table_round(self, stretches: Sequence[TableStretch]) -> None:
        for stretch in stretches:
            keys = [(*stretch.database, table.name) for table in stretch.tables if table.admitted]
            self._suspect(TABLE, self._tables(keys))
            self.result.compared["tables"] += len(keys)
            self._suspect(PARTITION, self._none_stored(keys))

    def _partition_round(self, stretches: Sequence[PartitionStretch]) -> None:
        for stretch in stretches:
            for table in stretch.tables:
                pairs = self._stretch(table, stretch)
                self.result.compared["partitions"] += sum(pair.stored is not None for pair in pairs.values())
                self._suspect(PARTITION, pairs)

    def _suspect(self, kind: str, pairs: Pairs) -> None:
        for key, pair in pairs.items():
            if self._differences(kind, key, pair):
                self.suspects[kind][key] = pair

    def _settled(self) -> TaskResult:
        """What differs for good, of what was compared since the last round."""
        number = sum(map(len, self.suspects.values()))
        if number:
            differ = fitting(number, "differs, and is", "differ, and are")
            most_s = f"{self.audit.settle_s:.0f} s"
            self.audit.report.tell(f"{counted(number, 'object')} {differ} read again for up to {most_s}")
            self._settle()
        left = [(kind, key, pair) for kind, pairs in self.suspects.items() for key, pair in pairs.items()]
        still = [one for one in left if not one[-1].moved]
        result, self.result = self.result, TaskResult()
        result.unsettled = len(left) - len(still)
        self.suspects.clear()
        found = (difference for one in still for difference in self._differences(*one))
        return FindingsSink(self.audit.plan.out).collect(found, result)

    def _settle(self) -> None:
        """Read again what differs, until it agrees, or for `settle_s`."""
        until_s, pause_s = time.monotonic() + self.audit.settle_s, FIRST_PAUSE_S
        read = {DATABASE: self._databases, LISTED: self._listed, TABLE: self._tables, PARTITION: self._partitions}
        while any(self.suspects.values()):
            time.sleep(pause_s)
            pause_s *= 2
            for kind, keys in self.suspects.items():
                if keys:
                    self._again(kind, read[kind](list(keys)))
            if time.monotonic() >= until_s:
                return

    def _again(self, kind: str, found: Pairs) -> None:
        """What was read again and agrees now is no suspect any more."""
        before, self.suspects[kind] = self.suspects[kind], {}
        self._suspect(kind, {key: found.get(key, Pair(None, None)) for key in before})
        for key, pair in self.suspects[kind].items():
            pair.moved = before[key].moved or pair.stored != before[key].stored

    def _differences(self, kind: str, key: ObjectKey, pair: Pair) -> list[Difference]:
        if pair.stored == pair.seen:
            return []
        names = dict(enumerate(map(text, key)))
        place = _KINDS[kind], names[0], names[1], names.get(2), names.get(3)
        if pair.stored is None or pair.seen is None:
            what = MISSING if pair.seen is None else EXTRA
            return [Difference(*place, what, LISTED if kind == LISTED else None)]
        ignored = {"locationUri"} if kind == DATABASE and self.store.identity.databases_rewritten else ()
        fields = [name for name in differing(kind, pair.seen, pair.stored) if name not in ignored]
        return [Difference(*place, DIFFERENT, name, pair.seen, pair.stored) for name in fields]

    # --- reading both

    def _databases(self, keys: Sequence[ObjectKey]) -> Pairs:
        names = [(catalog, database) for catalog, database in keys]
        with self.store.snapshot() as snapshot:
            stored = snapshot.databases(names)
        with self.proxy.snapshot() as seen:
            shown = seen.databases(names)
        return {key: Pair(_body(stored.get(key)), _body(shown.get(key))) for key in names}

    def _lists(self, databases: Sequence[DatabaseKey]) -> Pairs:
        """Tables that only one of both lists."""
        found: Pairs = {}
        for database in databases:
            with self.store.snapshot() as snapshot:
                stored = {name for name, _, _ in snapshot.table_names(*database)}
            with self.proxy.snapshot() as seen:
                shown = {name for name, _, _ in seen.table_names(*database)}
            for name in stored ^ shown:
                found[*database, name] = Pair(b"" if name in stored else None, b"" if name in shown else None)
        return found

    def _listed(self, keys: Sequence[ObjectKey]) -> Pairs:
        return self._lists(sorted({(catalog, database) for catalog, database, _ in keys}))

    def _tables(self, keys: Sequence[ObjectKey]) -> Pairs:
        wanted = [(catalog, database, name) for catalog, database, name in keys]
        with self.store.snapshot() as snapshot:
            stored = snapshot.tables_of(wanted)
        shown: dict[TableKey, TableRecord] = {}
        with self.proxy.snapshot() as seen:
            for key in wanted:  # one by one: a call for several is relayed if one of them has to be
                shown |= seen.tables_of([key])
        return {key: Pair(_body(stored.get(key)), _body(shown.get(key))) for key in wanted}

    def _none_stored(self, keys: Sequence[TableKey]) -> Pairs:
        """Partitions of partitioned tables that have none in the database."""
        with self.store.snapshot() as snapshot:
            keyed = [record for record in snapshot.tables_of(keys).values() if record.partition_keys]
            counts = snapshot.partition_counts([record.table_id for record in keyed])
        found: Pairs = {}
        with self.proxy.snapshot() as seen:
            for record in keyed:
                if not counts[record.table_id]:
                    shown = self._named(seen, record, None)
                    found |= {key: Pair(None, body) for key, body in shown.items()}
        return found

    def _stretch(self, table: Partitioned, stretch: PartitionStretch) -> Pairs:
        key = table.catalog, table.database, table.name
        with self.store.snapshot() as snapshot:
            owner = snapshot.tables_of([key]).get(key)
            if owner is None:
                return {}  # dropped since the names were read
            stored = self._records(snapshot, owner, stretch)
        with self.proxy.snapshot() as seen:
            shown = self._records(seen, owner, stretch)
        if stored is None or shown is None:
            self.result.not_loaded[UNFIT] += 1
            return {}
        return {one: Pair(stored.get(one), shown.get(one)) for one in {**stored, **shown}}

    def _records(
        self, snapshot: Snapshot, owner: TableRecord, stretch: PartitionStretch
    ) -> dict[ObjectKey, bytes] | None:
        try:
            return _encoded(owner, records_of(snapshot, owner, stretch.after, stretch.until))
        except Unfit:  # no cache can hold them, so they are relayed
            return None

    @staticmethod
    def _named(snapshot: Snapshot, owner: TableRecord, names: Sequence[bytes] | None) -> dict[ObjectKey, bytes]:
        """The named partitions, or all."""
        try:
            return _encoded(owner, snapshot.partitions(owner, names=names))
        except Unfit:
            return {}

    def _partitions(self, keys: Sequence[ObjectKey]) -> Pairs:
        grouped: defaultdict[TableKey, list[bytes]] = defaultdict(list)
        for catalog, database, table, name in keys:
            grouped[catalog, database, table].append(name)
        found: Pairs = {}
        for key, names in grouped.items():
            with self.store.snapshot() as snapshot:
                owner = snapshot.tables_of([key]).get(key)
                stored = {} if owner is None else self._named(snapshot, owner, names)
            if owner is not None:
                with self.proxy.snapshot() as seen:
                    shown = self._named(seen, owner, names)
                found |= {one: Pair(stored.get(one), shown.get(one)) for one in {**stored, **shown}}
        return found


def _tables_of(stretches: Sequence[TableStretch]) -> Iterator[Partitioned]:
    for stretch in stretches:
        for table in stretch.tables:
            if table.admitted:
                yield Partitioned(*stretch.database, table.name, table.table_id, False)


def _body(record: Any) -> bytes | None:
    return None if record is None else record.body


def _encoded(owner: TableRecord, found: Iterable[PartitionRecord]) -> dict[ObjectKey, bytes]:
    """Partitions by key, as lists of them have them."""
    names = TableNames(owner.database, owner.name, owner.catalog)
    own = owner.catalog, owner.database, owner.name
    return {(*own, record.name): assembled(names, record, record.sd_tail) for record in found}
