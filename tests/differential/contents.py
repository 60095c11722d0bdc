"""Fill a metastore with contents that are legal and unpleasant: the ground of the differential test.

Job: create databases, tables of all kinds, partitions with weird values; remember what exists (`World`), so that reads
and changes can be generated from it. All names start with the given prefix, so that several runs share a metastore.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from hive_metastore.ttypes import (
    AlreadyExistsException,
    CreateTableRequest,
    Database,
    FieldSchema,
    MetaException,
    Order,
    Partition,
    PrincipalType,
    PrivilegeBag,
    SerDeInfo,
    SkewedInfo,
    StorageDescriptor,
    Table,
)
from thrift.Thrift import TApplicationException

from tests.testbed.client import MetastoreClient
from tests.testbed.objects import ORC, PARQUET

CAPABILITIES = [
    "HIVEFULLACIDWRITE",
    "HIVEFULLACIDREAD",
    "HIVEMANAGEDINSERTWRITE",
    "HIVEMANAGEDINSERTREAD",
    "EXTWRITE",
    "EXTREAD",
]
TYPES = (
    "string int bigint double boolean date timestamp decimal(20,4) varchar(30) char(3) binary tinyint smallint float "
    "array<string> map<string,int> struct<a:int,b:array<struct<c:string,d:map<int,string>>>> uniontype<int,string>"
).split()
STRING_VALUES = [
    "a", "b", "A", "aa", "a b", "a/b", "a=b", "a%b", "o'clock", 'quo"te', "{x}", "x:y", "#", "[1]", "^", "\\", "*",
    "ü", "日本",
    "2024-01-01", "2024-01-02", "2024-1-1", "0", "00", "1", "10", "9", "-1", "1.0", "null", "NULL",
    "__HIVE_DEFAULT_PARTITION__", "2024-01-01 00:00:00", " lead", "x" * 300,
]  # fmt: skip
INT_VALUES = ["0", "1", "2", "9", "10", "11", "100", "-1", "007", "2147483647", "__HIVE_DEFAULT_PARTITION__"]
DATE_VALUES = [
    "2023-12-31",
    "2024-01-01",
    "2024-01-02",
    "2024-02-29",
    "1970-01-01",
    "__HIVE_DEFAULT_PARTITION__",
]
LATIN1_ENDS = (" ", "€", "\x01", "A")  # what MySQL compares otherwise than by bytes, and what it does not
VALUES = {
    "string": STRING_VALUES,
    "int": INT_VALUES,
    "bigint": INT_VALUES,
    "smallint": ["0", "1", "2024", "-5"],
    "tinyint": ["0", "1", "12", "-5", "__HIVE_DEFAULT_PARTITION__"],
    "date": DATE_VALUES,
    "decimal(10,2)": ["0", "1.00", "1.5", "-2.25", "100", "__HIVE_DEFAULT_PARTITION__"],
    "timestamp": ["2024-01-01 00:00:00", "2024-01-01 00:00:00.5", "1970-01-01 12:34:56"],
    "boolean": ["true", "false", "__HIVE_DEFAULT_PARTITION__"],
}
KEY_SHAPES = [
    [("dt", "string")],
    [("dt", "string"), ("hr", "int")],
    [("d", "date"), ("i", "bigint"), ("s", "string")],
    [("n", "int")],
    [("region", "varchar(20)")],
]
MORE_KEY_SHAPES = [
    [("y", "smallint"), ("m", "tinyint"), ("day", "int"), ("h", "string")],
    [("code", "char(5)"), ("amount", "decimal(10,2)")],
    [("at", "timestamp"), ("flag", "boolean")],
    [("Mixed", "string"), ("date", "date")],
]


@dataclass
class TableNote:
    database: str
    name: str
    kind: str
    keys: list[tuple[str, str]]
    partitions: list[list[str]] = field(default_factory=list)


@dataclass
class World:
    prefix: str
    random: random.Random
    databases: list[str] = field(default_factory=list)
    tables: list[TableNote] = field(default_factory=list)
    dropped: list[tuple[str, str]] = field(default_factory=list)
    catalogs: list[str] = field(default_factory=list)  # beside `hive`
    functions: list[tuple[str, str]] = field(default_factory=list)  # database, name; some may be gone
    constraints: list[tuple[TableNote, str]] = field(default_factory=list)  # as they were made; some may be gone
    roles: list[str] = field(default_factory=list)
    members: list[tuple[str, str]] = field(default_factory=list)  # role, user; some may be gone
    granted: list[PrivilegeBag] = field(default_factory=list)  # some may be gone
    kinds: Sequence[str] = ()  # of tables
    latin1: bool = False  # names and values: what Hive's script for MySQL has room for
    wide: bool = False  # keys of every type
    large: TableNote | None = None  # for filters alone: its replies are long

    def noted(self, definition: Table, kind: str) -> TableNote:
        """The note of a table that was created."""
        keys = [(key.name, key.type) for key in definition.partitionKeys]
        self.tables.append(TableNote(definition.dbName, definition.tableName, kind, keys))
        return self.tables[-1]

    def values(self, note: TableNote) -> list[str]:
        values = [self.random.choice(VALUES.get(kind, STRING_VALUES[:10])) for _, kind in note.keys]
        if not self.latin1:
            return values
        odd = note.name.startswith("t0_") and self.random.random() < 0.3
        ends = [self.random.choice(LATIN1_ENDS) if odd and kind == "string" else "" for _, kind in note.keys]
        return [("ÿ" if max(value) > "ÿ" else value) + end for value, end in zip(values, ends, strict=True)]


def columns(rng: random.Random, count: int) -> list[FieldSchema]:
    comments = [None, "", "plain", "Ünïcode 日本", "tab\tand\nline", "x" * 200]
    return [FieldSchema(f"c{i}", rng.choice(TYPES), rng.choice(comments)) for i in range(count)]


def storage(rng: random.Random, cols: list[FieldSchema], formats: tuple[str, str, str]) -> StorageDescriptor:
    serde = SerDeInfo(None, formats[2], {"serialization.format": "1"})
    if rng.random() < 0.3:
        serde = SerDeInfo("named", formats[2], {"field.delim": "\x01", "empty": "", "ü": "ü"}, "a description")
    return StorageDescriptor(
        cols=cols,
        inputFormat=formats[0],
        outputFormat=formats[1],
        compressed=rng.random() < 0.2,
        numBuckets=-1,
        serdeInfo=serde,
        bucketCols=[],
        sortCols=[],
        parameters={} if rng.random() < 0.7 else {"sd.key": "sd value", "blank": ""},
    )


def table(world: World, database: str, name: str, kind: str) -> Table:
    rng = world.random
    sd = storage(
        rng,
        columns(rng, 300 if kind == "wide" else rng.randint(1, 12)),
        ORC if kind in ("acid", "insert_only") else PARQUET,
    )
    shapes = KEY_SHAPES + (MORE_KEY_SHAPES if world.wide else [])
    keys = rng.choice(shapes) if kind in ("partitioned", "skewed", "bucketed", "acid", "wide") else []
    result = Table(
        tableName=name,
        dbName=database,
        owner=rng.choice(["me", "", "Owner Ü"]),
        createTime=rng.randint(0, 2**31 - 1),
        lastAccessTime=rng.choice([0, 5]),
        retention=rng.choice([0, 7]),
        sd=sd,
        partitionKeys=[FieldSchema(key, kind_, rng.choice([None, "", "key"])) for key, kind_ in keys],
        parameters={
            "EXTERNAL": "TRUE",
            "p": "v",
            "empty": "",
            "long": "y" * rng.choice([1, 3000]),
            "ü": "日本",
        },
        tableType="EXTERNAL_TABLE",
    )
    if rng.random() < 0.4:
        result.ownerType = rng.choice([PrincipalType.USER, PrincipalType.ROLE, PrincipalType.GROUP])
    _specialise(result, kind, rng)
    return result


def _specialise(result: Table, kind: str, rng: random.Random) -> None:
    sd = result.sd
    if kind == "bucketed":
        sd.numBuckets, sd.bucketCols, sd.sortCols = 4, [sd.cols[0].name], [Order(sd.cols[0].name, 1)]
    elif kind == "skewed":
        column = sd.cols[0].name
        sd.skewedInfo = SkewedInfo([column], [["1"], ["2 x"]], {})
        sd.storedAsSubDirectories = True
    elif kind == "view":
        result.tableType, result.viewOriginalText = "VIRTUAL_VIEW", "select 1 -- ü"
        result.viewExpandedText, result.sd.location = "select 1 as `c0`", None
        result.parameters.pop("EXTERNAL")
    elif kind == "iceberg":
        result.parameters.update(table_type="ICEBERG", metadata_location="file:/x/metadata/1.json")
    elif kind == "managed":
        result.tableType = "MANAGED_TABLE"
        result.parameters.pop("EXTERNAL")
    elif kind in ("acid", "insert_only"):
        result.tableType = "MANAGED_TABLE"
        result.parameters = {
            "transactional": "true",
            "transactional_properties": "default" if kind == "acid" else "insert_only",
        }


KINDS = ["partitioned"] * 5 + [
    "plain",
    "wide",
    "bucketed",
    "skewed",
    "view",
    "iceberg",
    "managed",
    "acid",
    "insert_only",
]
KINDS_23 = [kind for kind in KINDS if kind not in ("wide", "acid", "insert_only")]
"""What Hive 2.3 over Derby takes: no create_table_req, and 300 columns with comments are too many for it."""


def partition(world: World, note: TableNote, values: list[str]) -> Partition:
    """A partition of the noted table, with a storage descriptor of its own."""
    rng = world.random
    sd = storage(rng, columns(rng, 3), PARQUET)
    if any(len(value) > 200 for value in values) or rng.random() < 0.1:  # 255 bytes is a file name's limit
        sd.location = f"file:/nowhere/{note.database}/{note.name}/{rng.randint(0, 10**9)}"
    return Partition(
        values=values,
        dbName=note.database,
        tableName=note.name,
        createTime=rng.randint(1, 2**31 - 1),
        lastAccessTime=rng.choice([0, 9]),
        sd=sd,
        parameters=rng.choice([{}, {"numRows": str(rng.randint(0, 99))}, {"k": "", "ü": "日本", "long": "z" * 1000}]),
    )


def create_table(client: MetastoreClient, definition: Table, kind: str) -> None:
    if kind in ("acid", "insert_only"):
        request = CreateTableRequest(
            table=definition, processorCapabilities=CAPABILITIES, processorIdentifier="differential"
        )
        try:
            client.create_table_req(request)
            return
        except TApplicationException as error:  # Hive 3.1 has no such method
            if error.type != TApplicationException.UNKNOWN_METHOD:
                raise
    client.create_table(definition)


def new_partitions(world: World, note: TableNote, count: int) -> list[Partition]:
    """At most so many, with values that no partition of the table has."""
    wanted = {tuple(world.values(note)) for _ in range(count)} - {tuple(p) for p in note.partitions}
    return [partition(world, note, list(values)) for values in sorted(wanted)]


def add_partitions(world: World, client: MetastoreClient, note: TableNote, count: int) -> None:
    for one in new_partitions(world, note, count):
        try:
            client.add_partition(one)
        except (AlreadyExistsException, MetaException):
            continue  # 7 and 007 are one partition to the metastore; a name has room for 767 characters
        note.partitions.append(one.values)


def fill(
    client: MetastoreClient,
    prefix: str,
    seed: int,
    *,
    databases: int = 4,
    tables: int = 14,
    partitions: int = 12,
    kinds: Sequence[str] = KINDS,
    latin1: bool = False,
    wide: bool = False,
) -> World:
    """Create the contents. Deterministic in `seed` but for what the metastore itself fills in."""
    world = World(prefix, random.Random(seed), kinds=kinds, latin1=latin1, wide=wide)
    rng = world.random
    for number in range(databases):
        name = f"{prefix}_db{number}"
        client.create_database(
            Database(
                name=name,
                description=rng.choice([None, "", "Ünïcode", "plain"]),
                parameters=rng.choice([{}, {"k": "v", "e": ""}]),
                ownerName=rng.choice(["me", "ü"]),
                ownerType=rng.choice([PrincipalType.USER, PrincipalType.ROLE]),
            )
        )
        world.databases.append(name)
        for index in range(tables):
            kind = kinds[index % len(kinds)]
            add_table(world, client, name, f"t{index}_{kind}", kind, partitions)
    return world


def add_table(world: World, client: MetastoreClient, database: str, name: str, kind: str, partitions: int) -> None:
    definition = table(world, database, name, kind)
    create_table(client, definition, kind)
    note = world.noted(definition, kind)
    if note.keys and kind != "acid":
        add_partitions(world, client, note, partitions)


LARGE_KEYS = [("d", "string"), ("h", "int"), ("r", "string")]
LARGE_RS = [f"r{number}" for number in range(10)]
_AT_ONCE = 500


def add_large(world: World, client: MetastoreClient, partitions: int) -> None:
    """One table more, so large that filters jump over names, and searches by later keys make an index."""
    definition = table(world, world.databases[0], "large", "plain")
    definition.partitionKeys = [FieldSchema(key, kind, None) for key, kind in LARGE_KEYS]
    client.create_table(definition)
    note = world.large = TableNote(world.databases[0], "large", "large", list(LARGE_KEYS))
    rows = [
        [f"2024-{day // 28 + 1:02d}-{day % 28 + 1:02d}", str(hour), r]
        for day in range(partitions // 100)
        for hour in range(10)
        for r in LARGE_RS
    ]
    rows += [[day, "10", "rare"] for day in ("2024-01-05", "2024-02-01")]
    rows.append(["2024-01-07", "3", "__HIVE_DEFAULT_PARTITION__"])
    batch = [partition(world, note, values) for values in rows]
    for begin in range(0, len(batch), _AT_ONCE):
        client.add_partitions(batch[begin : begin + _AT_ONCE])
    note.partitions = rows[:3] + rows[-3:] + world.random.sample(rows, 20)
