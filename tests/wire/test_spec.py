"""Classes and the codec: construction, versions, loss, hostile lengths."""

from __future__ import annotations

import subprocess
import sys
import threading
import tracemalloc

import pytest

from hms_cache_proxy.errors import LimitError, WireError
from hms_cache_proxy.wire import facts, spec
from hms_cache_proxy.wire.scan import StreamScanner, end_of_struct
from hms_cache_proxy.wire.spans import end_of_value, fields_of, list_spans
from hms_cache_proxy.wire.spec import TType
from tests.wire import versioned
from tests.wire.fields import check

FieldSchema = spec.struct("FieldSchema")

# One struct each way: (value, bytes). The bytes are written down by hand from the protocol's description.
TABLE = [
    (FieldSchema(), "00"),
    (FieldSchema(name=b"id"), "0b0001 00000002 6964 00"),
    (FieldSchema(name=b"", comment=b"\xff\x00"), "0b0001 00000000 0b0003 00000002 ff00 00"),
    (
        spec.struct("Order")(col=b"c", order=-1),
        "0b0001 00000001 63 080002 ffffffff 00",
    ),
    (spec.struct("Decimal")(scale=-2, unscaled=b"\x80"), "0b0001 00000001 80 060003 fffe 00"),
    (
        spec.struct("SkewedInfo")(skewedColValues=[[b"1"], []], skewedColValueLocationMaps={(b"1",): b"l"}),
        "0f0002 0f00000002 0b00000001 00000001 31 0b000000000d0003 0f0b 00000001 0b00000001 00000001 31 00000001 6c 00",
    ),
    (spec.struct("DoubleColumnStatsData")(lowValue=1.5, numNulls=1 << 40), None),
    (spec.struct("PrivilegeGrantInfo")(grantorType=facts.enum("PrincipalType")["ROLE"]), "080004 00000002 00"),
    (spec.result("get_open_txns")(), "00"),
    (spec.struct("HeartbeatTxnRangeResponse")(aborted={7}), "0e0001 0a00000001 0000000000000007 00"),
    (spec.args("alter_table")(dbname=b"d", tbl_name=b"t"), "0b0001 00000001 64 0b0002 00000001 74 00"),
    (spec.struct("GetTableRequest")(getColumnStats=True), "020007 01 00"),
]


@pytest.mark.parametrize(("value", "text"), TABLE, ids=lambda item: type(item).__name__)
def test_value_and_bytes(value: spec.Struct, text: str | None) -> None:
    check(value)
    data = spec.encode(value)
    if text is not None:
        assert data == bytes.fromhex(text.replace(" ", ""))
    assert spec.decode(type(value), data) == (value, len(data))
    assert spec.decode(type(value), b"xx" + data + b"trailing", 2) == (value, len(data) + 2)
    for cut in range(len(data)):
        with pytest.raises(WireError, match="truncated|wrong ttype"):  # the codec's words for a map's header
            spec.decode(type(value), data[:cut])


def test_text_is_encoded_as_utf8_and_comes_back_as_bytes() -> None:
    data = spec.encode(FieldSchema(name="größe"))
    assert spec.decode(FieldSchema, data)[0].name == "größe".encode()


def test_absent_fields_stay_absent() -> None:
    """IDL defaults (Partition 10 isStatsCompliant, Table 18) are not filled in."""
    for name in ("Table", "Partition", "GetTableRequest"):
        cls = spec.struct(name)
        assert spec.decode(cls, b"\0") == (cls(), 1)
        assert spec.encode(cls()) == b"\0"
        assert all(getattr(cls(), field.name) is None for field in facts.fields(name))


def test_unknown_fields_are_dropped_which_is_why_bytes_are_spliced() -> None:
    data = bytes.fromhex("0b0001 00000001 61 0b00630000000178 00".replace(" ", ""))
    value, end = spec.decode(FieldSchema, data)
    assert end == len(data)
    assert spec.encode(value) == bytes.fromhex("0b0001000000016100")


def test_classes_are_made_once_also_by_threads() -> None:
    spec._classes.clear()
    found: list[type[spec.Struct]] = []
    threads = [threading.Thread(target=lambda: found.append(spec.result("get_partitions"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1
    assert found[0].thrift_spec[0][3][1][0] is spec.struct("Partition")


def test_the_newest_version_of_a_field_wins() -> None:
    assert spec.struct("Table").thrift_spec[16][2] == "creationMetadata"
    assert spec.struct("AddDynamicPartitions").thrift_spec[2][2] == "writeid"
    assert spec.struct("CreateDatabaseRequest").thrift_spec[11][1] == TType.I32


def test_fields_that_other_versions_have_otherwise() -> None:
    """The helper of tests that compare with what real metastores of these versions say."""
    assert versioned.struct("Table", "2.3.10").thrift_spec[16][2] == "catName"
    assert len(versioned.struct("Table", "2.3.9").thrift_spec) == 16
    assert versioned.struct("AddDynamicPartitions", "2.3.10").thrift_spec[2][2] == "dbname"
    assert versioned.struct("CreateDatabaseRequest", "4.0.0").thrift_spec[11][1] == TType.STRING
    found = versioned.result("get_partition_names", "2.3.10").thrift_spec[1][3][0].__name__
    assert found == "MetaException@2.3.10"


def test_facts() -> None:
    method = facts.METHODS["get_table"]
    assert method.versions == ("2.3.9", "2.3.10", "3.1.3", "4.0.0")
    assert [field.name for field in method.args] == ["dbname", "tbl_name"]
    assert [(field.id, field.type) for field in method.result][0] == (0, "Table")
    assert not method.oneway
    assert "get_tabel" not in facts.METHODS
    with pytest.raises(KeyError):
        facts.METHODS["get_tabel"]
    row = next(field for field in facts.fields("GetTableRequest") if field.name == "dbName")
    assert row.requirement is facts.Requirement.REQUIRED
    assert row.versions == facts.VERSIONS
    assert facts.enum("LockState")["ACQUIRED"] == 1


def test_a_struct_that_contains_itself() -> None:
    """Found by asking every struct for its class."""
    for name in facts.STRUCTS:
        assert spec.struct(name).__name__ == name
    for name in facts.METHODS:
        assert spec.args(name).__name__ == f"{name}_args"
        assert spec.result(name).__name__ == f"{name}_result"


def test_equality_and_repr() -> None:
    assert FieldSchema(name=b"a") == FieldSchema(name=b"a", comment=None)
    assert FieldSchema(name=b"a") != FieldSchema(name=b"b")
    assert FieldSchema() != spec.struct("Order")()
    assert repr(FieldSchema(name=b"a")) == "FieldSchema(name=b'a')"
    with pytest.raises(TypeError):
        hash(FieldSchema())


def test_check_finds_a_mistyped_field() -> None:
    bad = spec.struct("StorageDescriptor")(cols=[FieldSchema(nmae=b"a")])
    with pytest.raises(AssertionError, match="FieldSchema has no nmae"):
        check(bad)


@pytest.mark.parametrize(
    "value",
    [
        FieldSchema(name=5),
        FieldSchema(name="\ud800"),
        spec.struct("Order")(order=1 << 31),
        spec.struct("Order")(order="1"),
        spec.struct("Partition")(values=[None]),
        spec.struct("Partition")(sd=FieldSchema()),
    ],
)
def test_values_that_the_wire_cannot_carry(value: spec.Struct) -> None:
    with pytest.raises(WireError, match=f"cannot encode {type(value).__name__}"):
        spec.encode(value)


HOSTILE = {
    "string longer than the buffer": "0b0001 7fffffff 61",
    "negative string": "0b0001 ffffffff",
    "list of 2^31-1 structs": "0f0008 0c 7fffffff",
    "negative list": "0f0008 0c ffffffff",
    "map of 2^31-1": "0d0009 0b0b 7fffffff",
    "negative map": "0d0009 0b0b 80000000",
    "list of another type": "0f0008 0b 00000001 00000000 00",
    "map of other types": "0d0009 080b 00000001 00000001 00000000 00",
    "unknown wire type": "010001",
    "skipped string longer than the buffer": "0b0063 7fffffff",
    "skipped negative string": "0b0063 ffffffff",
    "skipped list": "0f0063 08 7fffffff",
    "skipped list of nothing": "0f0063 00 00000001",
    "nothing": "",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_bytes(text: str) -> None:
    """Refused, and before anything of the claimed size is allocated."""
    table = spec.struct("Table")
    tracemalloc.start()
    try:
        with pytest.raises(WireError):
            spec.decode(table, bytes.fromhex(text.replace(" ", "")))
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("offset", [3, 4, 1000, -1])
def test_an_offset_outside_of_the_buffer(offset: int) -> None:
    """The codec itself would crash the process."""
    with pytest.raises(WireError, match="truncated"):
        spec.decode(FieldSchema, b"..", offset)
    with pytest.raises(WireError, match="truncated"):
        end_of_struct(b"..", offset)
    with pytest.raises(WireError, match="truncated"):
        StreamScanner().feed(b"..", offset)
    for cls in (None, FieldSchema):
        with pytest.raises(WireError, match="truncated"):
            fields_of(b"..", offset, cls)
    for ttype in (TType.STRUCT, TType.STRING, TType.LIST, TType.I32):
        with pytest.raises(WireError, match="truncated"):
            end_of_value(b"..", offset, ttype)
    with pytest.raises(WireError, match="truncated"):
        list_spans(b"..", offset)


@pytest.mark.parametrize("name", [name for name in HOSTILE if "list of 2^31" in name or "map of 2^31" in name])
def test_a_wrong_count_is_not_said_to_be_a_limit_on_strings(name: str) -> None:
    with pytest.raises(WireError) as raised:
        spec.decode(spec.struct("Table"), bytes.fromhex(HOSTILE[name].replace(" ", "")))
    assert not isinstance(raised.value, LimitError)


@pytest.mark.parametrize(
    ("field", "element"),
    [
        (b"\x0c\0\1", b"\x0c\0\1"),
        (b"\x0f\0\1", b"\x0f\0\0\0\1"),
        (b"\x0e\0\1", b"\x0e\0\0\0\1"),
        (b"\x0d\0\1", b"\x03\x0d\0\0\0\1\0"),
    ],
    ids=["struct", "list", "set", "map"],
)
def test_depth_bombs(field: bytes, element: bytes) -> None:
    with pytest.raises(LimitError, match="nested deeper than 64"):
        spec.decode(FieldSchema, field + element * 1_000_000)


def test_refuses_to_start_without_the_extension() -> None:
    code = "import sys; sys.modules['thrift.protocol.fastbinary'] = None; import hms_cache_proxy.wire.spec"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "fastbinary is missing: install a wheel of thrift" in done.stderr
