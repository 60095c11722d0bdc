"""Any input gives a value or WireError: garbage, mutated recordings, generated structs.

And the parsers agree: what one takes as whole the others take too, to the same offset.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from hms_cache_proxy.errors import WireError
from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.framing import detect, parse_frame
from hms_cache_proxy.wire.message import NEED_MORE, NeedMore, parse_exception, parse_header
from hms_cache_proxy.wire.scan import MessageScanner, StreamScanner, end_of_struct
from hms_cache_proxy.wire.spans import fields_of, list_spans
from hms_cache_proxy.wire.spec import TType
from tests.wire import oracle, versioned
from tests.wire.fields import check
from tests.wire.golden import RECORDED

patient = settings(deadline=None, max_examples=300)

CLASSES = [spec.struct(name) for name in ("Table", "Partition", "SkewedInfo", "GetTableResult", "Decimal")]
CLASSES += [spec.result("get_partitions"), spec.args("add_partitions"), spec.result("get_open_txns")]

#: Bytes that mean something where a type, a length or a count is expected.
TELLING = [0, 1, 2, 3, 8, 10, 11, 12, 13, 14, 15, 16, 0x7F, 0x80, 0xFF]


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A recorded message with bytes changed, cut out or put in."""
    data = bytearray(draw(st.sampled_from(RECORDED)).data)
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(data)))
        kind = draw(st.sampled_from(["set", "cut", "insert", "length"]))
        if kind == "set" and at < len(data):
            data[at] = draw(st.sampled_from(TELLING))
        elif kind == "cut":
            del data[at : at + draw(st.integers(1, 40))]
        elif kind == "insert":
            data[at:at] = draw(st.binary(min_size=1, max_size=20))
        else:
            data[at : at + 4] = draw(st.integers(-(2**31), 2**31 - 1)).to_bytes(4, "big", signed=True)
    return bytes(data)


structs = st.lists(st.sampled_from(TELLING), max_size=60).map(bytes)
inputs = st.one_of(mutated(), st.binary(max_size=200), structs)


def outcome_of_pieces(scanner: StreamScanner | MessageScanner, data: bytes, cuts: list[int]) -> Any:
    """The end, NEED_MORE, or WireError itself."""
    at = 0
    edges = sorted({cut % (len(data) + 1) for cut in cuts} | {len(data)})
    try:
        for edge in edges:
            end = scanner.feed(data[at:edge])
            if end is not NEED_MORE:
                return at + end
            at = edge
    except WireError:
        return WireError
    return NEED_MORE


def outcome(data: bytes, start: int) -> int | NeedMore | type[WireError]:
    try:
        return end_of_struct(data, start)
    except WireError:
        return WireError


@patient
@given(inputs, st.lists(st.integers(0, 10_000), max_size=8))
def test_pieces_end_where_the_whole_does(data: bytes, cuts: list[int]) -> None:
    assert outcome_of_pieces(StreamScanner(), data, cuts) == outcome(data, 0)
    try:
        header = parse_header(data)
    except WireError:
        expected: object = WireError
    else:
        expected = NEED_MORE if header is NEED_MORE else outcome(data, header.body)
    assert outcome_of_pieces(MessageScanner(), data, cuts) == expected


def end_by_fields(data: bytes, start: int, cls: type[spec.Struct] | None) -> int | None:
    try:
        spans = fields_of(data, start, cls)
    except WireError:
        return None
    return (spans[-1][3] if spans else start) + 1


@patient
@given(inputs, st.integers(0, 40), st.sampled_from(CLASSES))
def test_spans_end_where_the_struct_does(data: bytes, start: int, cls: type[spec.Struct]) -> None:
    by_hand = end_by_fields(data, start, None)
    assert end_by_fields(data, start, cls) == by_hand
    if isinstance(end := outcome(data, start), int):
        assert by_hand == end
    try:
        spans = list_spans(data, start)
    except WireError:
        spans = []
    assert all(first <= last <= len(data) for first, last in spans)


@patient
@given(inputs, st.integers(0, 40), st.sampled_from(CLASSES))
def test_decode_gives_a_value_or_an_error(data: bytes, start: int, cls: type[spec.Struct]) -> None:
    try:
        value, end = spec.decode(cls, data, start)
    except WireError:
        pass
    else:
        assert end == end_of_struct(data, start)
        check(value)
        encoded = spec.encode(value)
        again, _ = spec.decode(cls, encoded)
        assert spec.encode(again) == encoded


@patient
@given(inputs)
def test_the_small_parsers(data: bytes) -> None:
    detect(data)
    for parse in (parse_frame, parse_header, lambda buf: parse_exception(buf, 0)):
        try:
            parse(data)
        except WireError:
            pass


SCALARS: dict[int, st.SearchStrategy[Any]] = {
    TType.BOOL: st.booleans(),
    TType.I8: st.integers(-(2**7), 2**7 - 1),
    TType.I16: st.integers(-(2**15), 2**15 - 1),
    TType.I32: st.integers(-(2**31), 2**31 - 1),
    TType.I64: st.integers(-(2**63), 2**63 - 1),
    TType.DOUBLE: st.floats(allow_nan=False),
    TType.STRING: st.binary(max_size=12),
}


def values(ttype: int, inner: Any, depth: int) -> st.SearchStrategy[Any]:
    """Values of one wire type."""
    if ttype in SCALARS:
        return SCALARS[ttype]
    if ttype == TType.STRUCT:
        return instances(inner[0], depth - 1)
    if ttype == TType.MAP:
        return st.dictionaries(values(inner[0], inner[1], depth), values(inner[2], inner[3], depth), max_size=3)
    elements = st.lists(values(inner[0], inner[1], depth), max_size=3)
    if ttype == TType.SET:
        return elements.map(set)
    return elements.map(tuple) if inner[2] else elements


def instances(cls: type[spec.Struct], depth: int) -> st.SearchStrategy[spec.Struct]:
    """Instances of a class with some of its fields set."""
    rows = [row for row in cls.thrift_spec if row]
    if depth <= 0 or not rows:
        return st.just(cls())
    chosen = st.lists(st.sampled_from(rows), unique_by=lambda row: row[0], max_size=6)
    filled = chosen.flatmap(
        lambda picked: st.fixed_dictionaries({row[2]: values(row[1], row[3], depth) for row in picked})
    )
    return filled.map(lambda fields: cls(**fields))


def to_oracle(version: str, value: Any) -> Any:
    """The same value in the second codec's classes."""
    if isinstance(value, spec.Struct):
        theirs = oracle.payload(version, type(value).__name__.partition("@")[0])()
        for name in vars(theirs):
            setattr(theirs, name, to_oracle(version, getattr(value, name)))
        return theirs
    if isinstance(value, list | set):
        return [to_oracle(version, item) for item in value]
    if isinstance(value, dict):
        return {key: to_oracle(version, item) for key, item in value.items()}
    return value


def names(version: str) -> list[str]:
    # SkewedInfo's map with list keys is beyond thriftpy2
    return [name for name in versioned.structs(version) if "Skewed" not in name]


@patient
@given(st.data(), st.sampled_from(["2.3.10", "3.1.3", "4.0.0", "4.2.0"]))
def test_generated_structs_against_the_second_codec(data: st.DataObject, version: str) -> None:
    cls = versioned.struct(data.draw(st.sampled_from(names(version))), version)
    ours = data.draw(instances(cls, 3))
    encoded = spec.encode(ours)
    theirs = to_oracle(version, ours)
    assert spec.decode(cls, encoded) == (ours, len(encoded))
    assert spec.decode(cls, oracle.encode(theirs))[0] == ours
    if "skewedInfo" not in repr(ours):
        oracle.assert_same(ours, oracle.decode(type(theirs), encoded))
    assert end_of_struct(encoded) == len(encoded)
    assert fields_of(encoded, 0, cls) == fields_of(encoded)
