"""Records as a store gives them, and the struct that each stands for, written field by field in the order of ids."""

from __future__ import annotations

from dataclasses import dataclass, replace
from struct import pack

from hms_cache_proxy.store.protocol import DatabaseRecord, PartitionRecord, StoreIdentity, TableRecord

IDENTITY = StoreIdentity("11111111-2222-3333-4444-555555555555", "4.2.0", "4.2", True, True)
LOCATION = b"s3://bucket/warehouse/sales.db/orders"
DATABASE = (b"hive", b"sales")
TABLE = (b"hive", b"sales", b"orders")
TABLE_ID = 77


def string(data: bytes) -> bytes:
    return pack(">i", len(data)) + data


def field(number: int, data: bytes) -> bytes:
    return b"\x0b" + pack(">h", number) + string(data)


def i32(number: int, value: int) -> bytes:
    return b"\x08" + pack(">hi", number, value)


def i64(number: int, value: int) -> bytes:
    return b"\x0a" + pack(">hq", number, value)


def strings(number: int, values: tuple[bytes, ...]) -> bytes:
    return b"\x0f" + pack(">h", number) + b"\x0b" + pack(">i", len(values)) + b"".join(map(string, values))


def mapping(number: int, values: dict[bytes, bytes]) -> bytes:
    entries = b"".join(string(key) + string(value) for key, value in values.items())
    return b"\x0d" + pack(">h", number) + b"\x0b\x0b" + pack(">i", len(values)) + entries


def columns(count: int, comment: bytes = b"a column") -> bytes:
    one = (field(1, b"column_%d" % at) + field(2, b"string") + field(3, comment) + b"\0" for at in range(count))
    return b"\x0f\x00\x01\x0c" + pack(">i", count) + b"".join(one)


@dataclass(frozen=True)
class Part:
    """A partition in readable form."""

    name: bytes
    values: tuple[bytes, ...] = (b"2024-01-01", b"7")
    create_time: int = 1_700_000_000
    access_time: int = 0
    location: bytes | None = b""  # "": the table's directory and the name
    parameters: tuple[tuple[bytes, bytes], ...] = ((b"numFiles", b"3"), (b"transient_lastDdlTime", b"1700000000"))
    width: int = 5
    serde_name: bytes = b"org.example.Serde"
    write_id: int = -1
    single: bytes | None = None  # another serde name in calls for one partition

    @property
    def where(self) -> bytes | None:
        return LOCATION + b"/" + self.name if self.location == b"" else self.location

    def tail(self, serde_name: bytes) -> bytes:
        formats = field(3, b"org.example.InputFormat") + field(4, b"org.example.OutputFormat")
        return formats + b"\x0c\x00\x07" + field(2, serde_name) + b"\0" + b"\0"

    def record(self) -> PartitionRecord:
        return PartitionRecord(
            name=self.name,
            values=strings(1, self.values),
            times=i32(4, self.create_time) + i32(5, self.access_time),
            location=self.where,
            parameters=mapping(7, dict(self.parameters)),
            tail=i64(10, self.write_id),
            sd_head=b"\x0c\x00\x06" + columns(self.width),
            sd_tail=self.tail(self.serde_name),
            sd_tail_single=None if self.single is None else self.tail(self.single),
        )

    def struct(self, *, single: bool = False, catalog: bytes | None = b"hive", table: bytes = b"orders") -> bytes:
        """The whole struct, as a metastore writes it."""
        serde = self.single if single and self.single is not None else self.serde_name
        where = b"" if self.where is None else field(2, self.where)
        return b"".join(
            (
                strings(1, self.values),
                field(2, b"sales"),
                field(3, table),
                i32(4, self.create_time),
                i32(5, self.access_time),
                b"\x0c\x00\x06" + columns(self.width) + where + self.tail(serde),
                mapping(7, dict(self.parameters)),
                b"" if catalog is None else field(9, catalog),
                i64(10, self.write_id),
                b"\0",
            )
        )


def day(number: int, *, files: int = 1) -> Part:
    """One of many alike."""
    value = b"2024-%02d-%02d" % (number // 28 % 12 + 1, number % 28 + 1)
    hour = b"%d" % (number // 336)
    parameters = (
        (b"COLUMN_STATS_ACCURATE", b'{"BASIC_STATS":"true"}'),
        (b"numFiles", b"%d" % files),
        (b"totalSize", b"%d" % (number * 977)),
        (b"transient_lastDdlTime", b"%d" % (1_700_000_000 + number)),
    )
    return Part(b"dt=" + value + b"/hour=" + hour, (value, hour), 1_700_000_000 + number, parameters=parameters)


def days(count: int, *, files: int = 1) -> list[Part]:
    return sorted((day(number, files=files) for number in range(count)), key=lambda part: part.name)


def database(name: bytes = b"sales", body: bytes = b"database body", *, remote: bool = False) -> DatabaseRecord:
    return DatabaseRecord(b"hive", name, body, remote)


def table(name: bytes = b"orders", table_id: int = TABLE_ID, body: bytes = b"table body") -> TableRecord:
    keys = ((b"dt", b"string"), (b"hour", b"int"))
    return TableRecord(b"hive", b"sales", name, table_id, b"MANAGED_TABLE", body, False, False, keys, LOCATION)


def flat_table(name: bytes, table_id: int, body: bytes = b"flat body") -> TableRecord:
    return replace(table(name, table_id, body), partition_keys=())
