"""A follower's steps in this process, one at a time, over the database of an embedded metastore in this process.

Job: a metastore whose methods a test calls without a socket, whose log it can fill by SQL, and a Cycle over its SQLite
file. Nothing is simulated but the process boundaries. Must not know: what a test looks for.
"""

from __future__ import annotations

import sqlite3
import struct
import time
import zlib
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from hms_cache_proxy.cache import targets
from hms_cache_proxy.cache.entries import TableEntry
from hms_cache_proxy.cache.last_used import SLOTS
from hms_cache_proxy.cache.reader import CacheReader
from hms_cache_proxy.cache.state import StatePage
from hms_cache_proxy.cache.writer import CacheWriter
from hms_cache_proxy.config.selection import Selection
from hms_cache_proxy.consistency.fences import FenceStore
from hms_cache_proxy.embedded.call import MetastoreSession
from hms_cache_proxy.embedded.database import Database
from hms_cache_proxy.embedded.handlers import METHODS
from hms_cache_proxy.embedded.service import Service
from hms_cache_proxy.embedded.warehouse import Warehouse
from hms_cache_proxy.follower.cycle import Cycle, StepSettings
from hms_cache_proxy.follower.step_states import StepOutcome
from hms_cache_proxy.store.protocol import RawStore
from hms_cache_proxy.store.sql.store import open_sql_store
from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.message import Header, MessageType, parse_header
from tests.testbed.closing import Closing

DATABASE = b"d"
CATALOG = b"hive"


def new(struct: str, **fields: Any) -> Any:
    """A struct of the interface."""
    return spec.struct(struct)(**fields)


def columns(count: int) -> list[Any]:
    return [new("FieldSchema", name=b"c%d" % number, type=b"string") for number in range(count)]


class Catalog(Closing):
    """The metastore, new or as it was left; `d` is a database of it."""

    def __init__(self, directory: Path) -> None:
        self.file = directory / "metastore.db"
        self.url = f"sqlite:///{self.file}"
        places = {name: (directory / name).as_uri() for name in ("managed", "external")}
        self._database = Database(self.url)
        self._database.prepare(warehouse=places["managed"], external=places["external"])
        self._service = Service(self._database, Warehouse(places["managed"], places["external"]), {})
        if DATABASE not in self.call("get_all_databases"):
            self.call("create_database", database=new("Database", name=DATABASE))

    def call(self, name: str, /, **arguments: Any) -> Any:
        """The method's value; AssertionError for what it refuses."""
        decoded, _ = spec.decode(spec.args(name), spec.encode(spec.args(name)(**arguments)), 0)
        reply = self._service.call(MetastoreSession("test"), name.encode(), METHODS[name], 0, decoded)
        header = parse_header(reply, 0)
        assert isinstance(header, Header) and header.type is MessageType.REPLY, reply
        result, _ = spec.decode(spec.result(name), reply, header.body)
        refused = {key: value for key, value in vars(result).items() if key != "success" and value is not None}
        assert not refused, refused
        return getattr(result, "success", None)

    def reply(self, message: bytes) -> bytes:
        """The reply to a call as a client sends it."""
        header = parse_header(message)
        assert isinstance(header, Header)
        name = header.name.decode()
        decoded, _ = spec.decode(spec.args(name), message, header.body)
        return self._service.call(MetastoreSession("test"), header.name, METHODS[name], header.seqid, decoded)

    def table(self, name: bytes, *, partitioned: bool = True, wide: int = 3) -> Any:
        """A new external table."""
        place = b"s3://bucket/" + name  # only recorded: no directory is made
        storage = new("StorageDescriptor", cols=columns(wide), location=place, serdeInfo=new("SerDeInfo"))
        keys = [new("FieldSchema", name=b"p", type=b"string")] if partitioned else []
        made = new("Table", tableName=name, dbName=DATABASE, sd=storage, partitionKeys=keys)
        made.parameters, made.tableType = {b"EXTERNAL": b"TRUE"}, b"EXTERNAL_TABLE"
        self.call("create_table", tbl=made)
        return made

    def add(self, table: bytes, values: Sequence[bytes]) -> None:
        """Partitions, in one event."""
        storage = new("StorageDescriptor", cols=columns(3), serdeInfo=new("SerDeInfo"))
        parts = [new("Partition", dbName=DATABASE, tableName=table, values=[one], sd=storage) for one in values]
        self.call("add_partitions", new_parts=parts)

    def alter(self, table: bytes, value: bytes, **parameters: bytes) -> None:
        """A partition's parameters, in one event."""
        part = self.call("get_partition", db_name=DATABASE, tbl_name=table, part_vals=[value])
        part.parameters = {**(part.parameters or {}), **{key.encode(): text for key, text in parameters.items()}}
        self.call("alter_partition", db_name=DATABASE, tbl_name=table, new_part=part)

    def events(self, count: int, template: str = "", *, kind: str = "") -> None:
        """Rows of the log by SQL, in one transaction: copies of the newest row, or of the newest of a kind. With a
        `template` its text is the message, in plain JSON, with @ replaced by a number of six digits."""
        with closing(sqlite3.connect(self.file, isolation_level=None, timeout=60)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(_COPIES, {"count": count, "template": template, "kind": kind})
            connection.execute('UPDATE "NOTIFICATION_SEQUENCE" SET "NEXT_EVENT_ID" = "NEXT_EVENT_ID" + ?', (count,))
            connection.execute("COMMIT")

    def newest_message(self) -> str:
        """As it is stored."""
        with closing(sqlite3.connect(self.file, timeout=60)) as connection:
            row = connection.execute('SELECT "MESSAGE" FROM "NOTIFICATION_LOG" ORDER BY "EVENT_ID" DESC').fetchone()
            return str(row[0])

    def close(self) -> None:
        self._database.close()


_COPIES = """
WITH RECURSIVE counted (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM counted WHERE n + 1 < :count),
  newest AS (SELECT * FROM "NOTIFICATION_LOG" WHERE :kind IN ('', "EVENT_TYPE") ORDER BY "EVENT_ID" DESC LIMIT 1),
  following (id) AS (SELECT "NEXT_EVENT_ID" FROM "NOTIFICATION_SEQUENCE")
INSERT INTO "NOTIFICATION_LOG"
  ("NL_ID", "EVENT_ID", "EVENT_TIME", "EVENT_TYPE", "CAT_NAME", "DB_NAME", "TBL_NAME", "MESSAGE", "MESSAGE_FORMAT")
SELECT 1000000000 + id + n, id + n, "EVENT_TIME", "EVENT_TYPE", "CAT_NAME", "DB_NAME", "TBL_NAME",
  CASE :template WHEN '' THEN "MESSAGE" ELSE replace(:template, '@', printf('%06d', n)) END,
  CASE :template WHEN '' THEN "MESSAGE_FORMAT" ELSE 'json-2.0' END
FROM counted, newest, following"""


class Stepping(Closing):
    """A cache, and a Cycle that fills it when it is told to."""

    def __init__(
        self,
        directory: Path,
        catalog: Catalog | RawStore,
        *,
        chunk: int = 10_000,
        max_bytes: int = 1 << 30,
        map_size: int = 0,
    ) -> None:
        directory.mkdir(mode=0o700, exist_ok=True)
        self.page = StatePage(directory / "state", create=True)
        self.fences = FenceStore(directory / "fences", self.page)
        self.store: RawStore = open_sql_store(catalog.url) if isinstance(catalog, Catalog) else catalog
        path = directory / "cache"
        self.writer = CacheWriter.open(path, self.page, self.store.identity, map_size=map_size or 4 * max_bytes)
        self.uses = directory / "uses"
        self.reader = CacheReader(path, self.page, self.uses)
        self.settings = StepSettings(Selection((), ()), max_bytes, chunk)
        self.cycle = self.another_cycle()

    def another_cycle(self) -> Cycle:
        """As after a failure of the store: the cache and its writer stay."""
        self.cycle = Cycle(self.store, self.writer, self.reader, self.fences, self.page, self.settings)
        return self.cycle

    def step(self, chunk: int | None = None) -> StepOutcome:
        """One step, and what follows it."""
        outcome = self.cycle.step(self.settings.chunk if chunk is None else chunk)
        self.cycle.collect()
        return outcome

    def settle(self, most: int = 500) -> int:
        """Steps until nothing is left to do, as two that find nothing show; gives how many."""
        quiet = 0
        for number in range(1, most + 1):
            outcome = self.step()
            quiet = 0 if outcome.more or outcome.changed else quiet + 1
            if quiet == 2:
                return number
        raise AssertionError(f"not done after {most} steps: {self.cycle.work and vars(self.cycle.work)}")

    def table(self, name: bytes) -> TableEntry:
        """As the cache has it, loaded or not."""
        with self.reader.snapshot() as snapshot:
            found = snapshot.table(CATALOG, DATABASE, name)
        assert isinstance(found, TableEntry), found
        return found

    def used(self, name: bytes, ago_s: float) -> None:
        """A table was asked for so long ago, as a worker's mark in the file says it."""
        at = 4 * (zlib.crc32(targets.table(CATALOG, DATABASE, name)) % SLOTS)
        with self.uses.open("r+b") as file:
            file.seek(at)
            file.write(struct.pack("=I", int(time.time() - ago_s)))

    def loaded(self, name: bytes) -> bool:
        """No, too, while the cache does not know it: over Thrift a step that saw the log move has read nothing."""
        with self.reader.snapshot() as snapshot:
            entry = snapshot.table(CATALOG, DATABASE, name)
        if not isinstance(entry, TableEntry) or entry.body is None:
            return False
        return entry.partitions_loaded or not entry.partition_keys

    def same(self, catalog: Catalog, name: bytes) -> int:
        """A loaded table's partitions are the metastore's; gives how many."""
        entry = self.table(name)
        asked = catalog.call("get_partitions", db_name=DATABASE, tbl_name=name, max_parts=-1)
        with self.reader.snapshot() as snapshot:
            names = snapshot.partition_names(entry)
            bodies = snapshot.partitions(entry, names)
        kept = [spec.decode(spec.struct("Partition"), body or b"", 0)[0] for body in bodies]
        by_values = {tuple(part.values): part for part in asked}
        assert len(names) == len(by_values) == entry.partition_count, (len(names), len(by_values))
        for part in kept:
            assert vars(part).keys() == vars(by_values[tuple(part.values)]).keys()
            assert part == by_values[tuple(part.values)], part
        return len(names)

    def close(self) -> None:
        self.reader.close()
        self.writer.close()
        self.store.close()
        self.fences.close()
        self.page.close()
