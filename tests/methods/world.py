"""What the reader tests ask about: one database of every kind of table and partition, on a real metastore.

Job: create it once per metastore, under names of its own, and fill `{db}` in arguments. Must not know: readers, cache.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.message import MessageType
from tests.methods.analyzed import Analyzed
from tests.methods.oracle import Oracle
from tests.methods.structs import descriptor as descriptor
from tests.methods.structs import struct as struct
from tests.store.constrained import Constrained
from tests.store.oracle import Oracle as Untyped

DEFAULT_PARTITION = b"__HIVE_DEFAULT_PARTITION__"
CAPABILITIES = b"HIVEFULLACIDWRITE HIVEFULLACIDREAD HIVEMANAGEDINSERTWRITE HIVEMANAGEDINSERTREAD EXTWRITE EXTREAD"

Keys = tuple[tuple[bytes, bytes], ...]

PARTITIONED: dict[bytes, tuple[Keys, list[list[bytes]]]] = {
    b"keyed": (
        ((b"dt", b"string"),),
        [
            [value.encode()]
            for value in (
                *("2024-01-01", "2024-01-02", "a b", "x/y=z:%", "ü", DEFAULT_PARTITION.decode(), "A", "a"),
                *("10", "9", "1.0", "1_0", "quote'\"\\", " lead", "*?[]{}#^", "日本語", "😀", "a%b", "a_b"),
            )
        ],
    ),
    b"two_keys": (
        ((b"dt", b"string"), (b"hr", b"int")),
        [
            *([b"2024-01-01", hour] for hour in (b"1", b"2", b"10", b"007", b"-3")),
            [b"2024-01-02", b"1"],
            [b"2024-01-02", DEFAULT_PARTITION],
            [b"2024-01-03", b"03"],
            [b"2024-01-0/4", b"5"],
            [b"2024-01-011", b"5"],
            *([b"0.5", hour] for hour in (b"1", b"2", b"3")),
            [DEFAULT_PARTITION, b"1"],
        ],
    ),
    b"dated": (((b"d", b"date"),), [[b"2024-01-01"], [b"2024-02-01"], [DEFAULT_PARTITION]]),
    b"numbered": (
        ((b"b", b"bigint"), (b"s", b"string")),
        [[b"1", b"x"], [b"22", b"y"], [b"-3", b"x"], [b"9223372036854775807", b"z"], [b"0", b""]],
    ),
    b"small": (((b"n", b"tinyint"), (b"m", b"smallint")), [[b"1", b"300"], [b"-1", b"-300"], [b"127", b"0"]]),
    b"of_varchar": (
        ((b"v", b"varchar(10)"), (b"c", b"char(5)")),
        [[b"one", b"a"], [b"two", b"b"], [DEFAULT_PARTITION, b"Z"]],
    ),
    b"of_other_types": (
        ((b"o", b"boolean"), (b"e", b"decimal(5,2)"), (b"t", b"timestamp")),
        [
            [b"true", b"1.50", b"1970-01-01 12:34:56"],
            [b"x", b"2", DEFAULT_PARTITION],
            [DEFAULT_PARTITION, DEFAULT_PARTITION, b"1970-01-01 00:00:00"],
        ],
    ),
    b"no_partitions_yet": (((b"dt", b"string"),), []),
}


@dataclass
class World:
    """The content on one metastore; `prefix` begins the names of its databases."""

    address: str
    store_url: str
    prefix: str
    hive2: bool = False
    database: bytes = field(init=False)

    def __post_init__(self) -> None:
        self.database = f"{self.prefix}main".encode()

    def filled(self, value: Any) -> Any:
        """Arguments with {db}, {DB} and {prefix} replaced, in every string, list and struct."""
        if isinstance(value, bytes):
            name = self.database
            value = value.replace(b"{db}", name).replace(b"{DB}", name.upper())
            return value.replace(b"{prefix}", self.prefix.encode()).replace(b"{PREFIX}", self.prefix.upper().encode())
        if isinstance(value, list):
            return [self.filled(element) for element in value]
        if isinstance(value, dict):
            return {key: self.filled(element) for key, element in value.items()}
        if isinstance(value, spec.Struct):
            return type(value)(**{name: self.filled(getattr(value, name)) for name in value._names})
        return value

    def request(self, struct_name: str, **fields: Any) -> spec.Struct:
        """A request struct, filled; dbName=None means the main database."""
        return struct(struct_name, **{k: self.database if v is None else v for k, v in fields.items()})

    def create(self) -> None:
        """Everything, once."""
        with Oracle(self.address) as hms:
            for name in (b"main", b"main2", b"other", b"empty"):
                database = struct(
                    "Database", name=self.prefix.encode() + name, description=b"d", parameters={b"p": b"q"}
                )
                hms.do("create_database", database=database)
            self._tables(hms)
            for name, (keys, values) in PARTITIONED.items():
                self.table(hms, name, keys)
                self.partitions(hms, name, values)
            self._acid(hms)
            if self.hive2:
                return
            Analyzed(hms, f"{self.prefix}stat".encode()).create()
        host, _, port = self.address.rpartition(":")
        with Untyped(host, int(port)) as oracle:
            Constrained(oracle, f"{self.prefix}cons").create()

    def drop(self) -> None:
        """Everything away."""
        with Oracle(self.address) as hms:
            cons_and_stat = () if self.hive2 else (b"cons", b"stat")
            for name in (b"main", b"main2", b"other", b"empty", *cons_and_stat):
                hms.do("drop_database", name=self.prefix.encode() + name, deleteData=True, cascade=True)

    def table(self, hms: Oracle, name: bytes, keys: Iterable[tuple[bytes, bytes]] = (), **fields: Any) -> None:
        """create_table."""
        values = {
            "tableName": name,
            "dbName": self.database,
            "owner": b"o",
            "sd": descriptor(),
            "partitionKeys": [struct("FieldSchema", name=key, type=kind) for key, kind in keys],
            "parameters": {b"EXTERNAL": b"TRUE"},
            "tableType": b"EXTERNAL_TABLE",
        }
        hms.do("create_table", tbl=struct("Table", **(values | fields)))

    def partitions(self, hms: Oracle, table: bytes, values: Iterable[list[bytes]], **fields: Any) -> None:
        """add_partitions."""
        common = {"dbName": self.database, "tableName": table, "createTime": 1, "parameters": {b"k": b"v"}}
        rows = [struct("Partition", values=each, **({"sd": descriptor()} | common | fields)) for each in values]
        hms.do("add_partitions", new_parts=rows)

    def _tables(self, hms: Oracle) -> None:
        for name in (b"plain", b"Plain2", b"tab_x", b"tabyx", b"t1"):
            self.table(hms, name)
        self.table(hms, b"said", parameters={b"EXTERNAL": b"TRUE", b"comment": "ü, said".encode()}, ownerType=2)
        view: dict[str, Any] = {
            "tableType": b"VIRTUAL_VIEW",
            "parameters": {},
            "sd": descriptor(inputFormat=None, outputFormat=None),
        }
        self.table(hms, b"a_view", viewOriginalText=b"select 1", viewExpandedText=b"select 1", **view)
        private = {b"EXTERNAL": b"TRUE", b"PARTITION_LEVEL_PRIVILEGE": b"true"}
        self.table(hms, b"private", ((b"dt", b"string"),), parameters=private)
        self.partitions(hms, b"private", [[b"1"]])
        grouped = {b"EXTERNAL": b"TRUE", b"hive.hcatalog.partition.spec.grouping.enabled": b"True"}
        self.table(hms, b"grouped", ((b"dt", b"string"),), parameters=grouped)
        self.partitions(hms, b"grouped", [[b"1"], [b"2"]])
        buckets = descriptor(numBuckets=4, bucketCols=[b"id"])
        self.table(hms, b"bucketed", ((b"dt", b"string"),), sd=buckets)
        self.partitions(hms, b"bucketed", [[b"1"]], sd=buckets)
        resources = [struct("ResourceUri", resourceType=1, uri=b"file:///a.jar")]
        values = {"className": b"org.example.A", "ownerName": b"o", "ownerType": 1, "functionType": 1, "createTime": 1}
        named = {"functionName": b"a_function", "dbName": self.database, "resourceUris": resources}
        hms.do("create_function", func=struct("Function", **named, **values))
        serde2 = b"org.apache.hadoop.hive.serde2."
        for kind, library in (("json", serde2 + b"JsonSerDe"), ("csv", serde2 + b"OpenCSVSerde"), ("nothing", None)):
            serde = struct("SerDeInfo", serializationLib=library, parameters={})
            self.table(hms, f"of_{kind}".encode(), ((b"dt", b"string"),), sd=descriptor(serdeInfo=serde))
        self.table(hms, b"asking", parameters={b"EXTERNAL": b"TRUE", b"OBJCAPABILITIES": b"EXTREAD,EXTWRITE"})

    def _acid(self, hms: Oracle) -> None:
        insert_only = {b"transactional": b"true", b"transactional_properties": b"insert_only"}
        if not self.hive2:
            self._transactional(hms, b"insert_only", ((b"dt", b"string"),), insert_only, descriptor())
        orc = b"org.apache.hadoop.hive.ql.io.orc.Orc"
        serde = struct("SerDeInfo", serializationLib=orc + b"Serde", parameters={})
        files = descriptor(inputFormat=orc + b"InputFormat", outputFormat=orc + b"OutputFormat", serdeInfo=serde)
        if self.hive2:
            files.numBuckets, files.bucketCols = 2, [b"id"]
        self._transactional(hms, b"full_acid", ((b"dt", b"string"),), {b"transactional": b"true"}, files)
        self.partitions(hms, b"full_acid", [[b"1"]], sd=files)
        self._transactional(hms, b"full_flat", (), {b"transactional": b"true"}, files)

    def _transactional(self, hms: Oracle, name: bytes, keys: Keys, parameters: dict[bytes, bytes], sd: Any) -> None:
        table = struct(
            "Table",
            tableName=name,
            dbName=self.database,
            sd=sd,
            partitionKeys=[struct("FieldSchema", name=key, type=kind) for key, kind in keys],
            parameters=parameters,
            tableType=b"MANAGED_TABLE",
        )
        capabilities = CAPABILITIES.split()
        request = struct(
            "CreateTableRequest", table=table, processorCapabilities=capabilities, processorIdentifier=b"tests"
        )
        if hms.ask("create_table_req", request=request).type is MessageType.EXCEPTION:  # Hive 3.1 has no such method
            hms.do("create_table", tbl=table)
