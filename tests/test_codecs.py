"""Three decoders agree on what real peers sent, and a decoder that drops or misreads a field is found out."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from hms_cache_proxy.errors import WireError
from hms_cache_proxy.wire import spec
from tests.codecs import Disagreement, agree, payload
from tests.comparison import first_difference, in_any_order, settled
from tests.methods.oracle import plain
from tests.testbed.raw import encode_call
from tests.testbed.untyped import VERSION_1
from tests.wire import versioned
from tests.wire.golden import RECORDED, Recorded

REPLIES = [one for one in RECORDED if one.kind == "reply" and one.data[3] == 2]


def reply(method: str, success: Any) -> bytes:
    """A reply message as the product writes it."""
    name = method.encode()
    header = struct.pack(">Ii", VERSION_1 | 2, len(name)) + name + struct.pack(">i", 1)
    return header + spec.encode(spec.result(method)(success=success))


@pytest.mark.parametrize("sample", RECORDED, ids=str)
def test_recorded_messages(sample: Recorded) -> None:
    version = sample.version if sample.kind == "reply" else "4.2.0"
    read = agree(sample.data, version)
    assert (read.method, read.type == 1) == (sample.method, sample.kind == "call")


FIELDS = spec.struct("FieldSchema")
PARTITION = spec.struct("Partition")(
    values=[b"1", b"\xff"],
    createTime=0,
    sd=spec.struct("StorageDescriptor")(
        cols=[FIELDS(name=b"a", type=b"int"), FIELDS(name=b"b")],
        skewedInfo=spec.struct("SkewedInfo")(
            skewedColValues=[[b"1"], []], skewedColValueLocationMaps={(b"1",): b"l", (b"2", b"3"): b""}
        ),
        parameters={b"k": b"", b"": b"v"},
    ),
    parameters={},
    isStatsCompliant=False,
)


def test_values_of_every_kind() -> None:
    columns = spec.struct("DoubleColumnStatsData")(lowValue=float("nan"), highValue=-0.0, numNulls=1 << 40, numDVs=0)
    data = spec.struct("ColumnStatisticsData")(doubleStats=columns)
    agree(reply("get_partitions", [PARTITION, PARTITION]))
    agree(reply("get_table_statistics_req", spec.struct("TableStatsResult")(
        tableStats=[spec.struct("ColumnStatisticsObj")(colName=b"c", colType=b"double", statsData=data)]
    )))  # fmt: skip
    agree(reply("heartbeat_txn_range", spec.struct("HeartbeatTxnRangeResponse")(aborted={7, 1 << 40}, nosuch=set())))
    agree(encode_call("get_table", "d", "t"))
    agree(reply("get_table", spec.struct("Table")(tableName=b"t", txnId=5)), "4.2.0")  # 4.2 has no such method


class Dropping:
    """The product's codec, but that it does not know one field."""

    def __init__(self, struct_name: str, field: str) -> None:
        self.struct_name, self.field, self.dropped = struct_name, field, 0

    def __call__(self, cls: type[spec.Struct], body: bytes) -> tuple[spec.Struct, int]:
        value, end = spec.decode(cls, body)
        self._drop(value)
        return value, end

    def _drop(self, value: Any) -> None:
        if isinstance(value, spec.Struct):
            if _name(value) == self.struct_name and getattr(value, self.field) is not None:
                setattr(value, self.field, None)
                self.dropped += 1
            for name in value._names:
                self._drop(getattr(value, name))
        elif isinstance(value, list | dict):
            for item in value.values() if isinstance(value, dict) else value:
                self._drop(item)


@pytest.mark.parametrize(
    ("struct_name", "field"),
    [
        ("Partition", "createTime"),
        ("FieldSchema", "type"),
        ("SkewedInfo", "skewedColValueLocationMaps"),
        ("StorageDescriptor", "parameters"),
        ("Partition", "isStatsCompliant"),
    ],
)
def test_a_dropped_field_is_seen(struct_name: str, field: str) -> None:
    """Planted: this comparison of what one codec says of two equal replies would see nothing."""
    message, broken = reply("get_partitions", [PARTITION]), Dropping(struct_name, field)
    with pytest.raises(Disagreement, match="other fields than hms_cache_proxy.wire finds"):
        agree(message, decode=broken)
    assert broken.dropped
    agree(message)


def test_any_field_that_real_replies_have() -> None:
    """Of each struct in them each field, dropped: the planted bug is seen wherever it is."""
    planted = 0
    for sample in REPLIES:
        agree(sample.data, sample.version)
        value, _ = spec.decode(versioned.result(sample.method, sample.version), _body(sample.data))
        for struct_name, field in sorted(_held(value)):
            broken = Dropping(struct_name, field)
            try:
                agree(sample.data, sample.version, decode=broken)
            except Disagreement:
                planted += 1
            else:
                raise AssertionError(f"{sample}: {struct_name}.{field} was dropped and not missed")
    assert planted > 300


def _name(value: spec.Struct) -> str:
    return type(value).__name__.partition("@")[0]  # of any version


def _body(message: bytes) -> bytes:
    return message[12 + struct.unpack_from(">i", message, 4)[0] :]


def _held(value: Any) -> set[tuple[str, str]]:
    if isinstance(value, spec.Struct):
        names = [name for name in value._names if getattr(value, name) is not None]
        inner = [_held(getattr(value, name)) for name in names]
        return {(_name(value), name) for name in names}.union(*inner)
    if isinstance(value, list | dict):
        return set[tuple[str, str]]().union(*map(_held, value.values() if isinstance(value, dict) else value))
    return set()


def test_a_field_that_only_the_wire_has() -> None:
    message = reply("get_partitions", [PARTITION])
    extra = message[:-2] + bytes.fromhex("0b 0063 00000001 78") + message[-2:]
    with pytest.raises(Disagreement, match="hms_cache_proxy.wire"):
        agree(extra)


def test_the_second_codec_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The IDL without a field that the product's facts have."""
    known = payload("get_partitions", "result", "4.2.0").thrift_spec[0][2][1]
    shorter = {number: row for number, row in known.thrift_spec.items() if number != 4}
    message = reply("get_partitions", [PARTITION])
    monkeypatch.setattr(known, "thrift_spec", shorter)
    with pytest.raises(Disagreement, match="other fields than thriftpy2 finds"):
        agree(message)


def test_what_is_no_message() -> None:
    message = reply("get_partitions", [PARTITION])
    for broken in (message[:-1], message + b"\0", b"HTTP/1.1 200 OK"):
        with pytest.raises((ValueError, WireError)):
            agree(broken)


MARIADB = b"Unable to execute (conn=%d) Duplicate entry 'a' (conn=%d)"
JAVA = b'java.lang.NullPointerException: Cannot invoke "String.trim()" because the return value of "A.b()" is null'


def test_settled() -> None:
    """Numbers of connections and details of null pointers, however deep; and nothing else."""
    first = {1: (12, {1: (11, MARIADB % (7, 7))}), 0: [("a", MARIADB % (12, 3))]}
    other = {1: (12, {1: (11, MARIADB % (1234, 9))}), 0: [("a", MARIADB % (3, 3))]}
    assert first != other and settled(first) == settled(other) and not first_difference(first, other)
    assert settled(JAVA + b"; more") == b"java.lang.NullPointerException; more"
    assert settled([JAVA.partition(b": ")[2]]) == [b"null"]
    for text in (b"(conn=)", b"conn=7", b"(conn=x)", b"Cannot invoke", b"null", b"NullPointerException: other"):
        assert settled(text) == text
    assert first_difference({0: b"(conn=7) a"}, {0: b"(conn=8) b"})


def test_plain_values_are_settled() -> None:
    raised = spec.result("get_database")(o2=spec.struct("MetaException")(message=MARIADB % (1, 2)))
    assert plain(raised)[1]["o2"][1]["message"] == MARIADB.replace(b"%d", b"")


def test_in_any_order() -> None:
    """The rows of a result, at any place that replies have them; not what lies in a row."""
    rows = [("T", {"cols": [2, 1]}), ("S", {})]
    for found in (
        ("r", {"success": rows}),
        ("r", {"success": ("R", {"rows": rows})}),
        ("r", {"success": ("R", {"x": ("S", {"rows": rows})})}),
        ("r", {"success": ("R", {"rows": {"p=1": rows}})}),
    ):
        assert repr(in_any_order(found)).count("[('S', {}), ('T', {'cols': [2, 1]})]") == 1
