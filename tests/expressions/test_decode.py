"""The bytes of expressions are read as Hive's own classes read them, or refused."""

from __future__ import annotations

from collections import Counter

import pytest

from hms_cache_proxy.expressions import decode as decoding
from hms_cache_proxy.expressions import kryo
from hms_cache_proxy.expressions.decode import decode
from hms_cache_proxy.expressions.kryo import MAX_BYTES, MAX_DEPTH
from hms_cache_proxy.expressions.tree import NotUnderstood
from tests.chance import chance
from tests.expressions.captured import mutated, vectors, written

HEAD = b"\x01\x00org.apache.hadoop.hive.ql.plan.ExprNodeGenericFuncDes\xe3\x01"


def read(data: bytes) -> str | None:
    """As Hive writes it; None if it is refused."""
    try:
        return written(decode(data))
    except NotUnderstood:
        return None


def test_what_planners_send_says_what_hive_makes_of_it() -> None:
    counts: Counter[tuple[str, bool]] = Counter()
    for captured in vectors():
        found = read(captured.expression)
        own = captured.filter.replace("const struct", "struct").replace("substring(", "substr(")
        assert found in (None, own), captured.filter
        counts[captured.hive, found is not None] += 1
    assert counts["4.0.1", True] >= 485 and counts["4.2.0", True] >= 277, counts


def test_changed_bytes_say_what_hive_makes_of_them_or_are_refused() -> None:
    for data, as_filter in mutated():
        assert read(data) in (None, as_filter.replace("const struct", "struct"))


def test_any_change_of_bytes_is_read_or_refused() -> None:
    """Bits, bytes, cuts, doubled pieces, and pieces of others: no other exception."""
    known = [captured.expression for captured in vectors()]
    accepted = 0
    for seed in range(3000):
        rng = chance(seed)
        data = bytearray(rng.choice(known))
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(data))
            how = rng.randrange(5)
            if how == 0:
                data[at] ^= 1 << rng.randrange(8)
            elif how == 1:
                data[at] = rng.randrange(256)
            elif how == 2:
                del data[at : at + rng.randint(1, 4)]
            elif how == 3:
                data[at:at] = data[at : at + rng.randint(1, 8)]
            else:
                other = rng.choice(known)
                begin = rng.randrange(len(other))
                data[at : at + 4] = other[begin : begin + rng.randint(1, 8)]
            data = data or bytearray(b"\0")
        accepted += read(bytes(data)) is not None
    assert accepted > 10, "not everything that is changed is refused, or the test shows little"


def test_every_beginning_is_refused() -> None:
    whole = vectors()[0].expression
    assert read(whole) is not None
    for end in range(len(whole)):
        assert read(whole[:end]) is None
    assert read(whole + b"\0") is None, "Hive ignores what follows"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"\0",
        b"garbage",
        b"(ds = '2024-01-01')",
        HEAD * 50,
        HEAD + b"\x01\x01java.util.ArrayLis\xf4\x01" + b"\xff" * 20,
        b"\x01\x00java.util.ArrayLis\xf4\x01" + b"\x02\x01\x00\x01" * (2 * MAX_DEPTH),
        b"\x01\x00" + b"a" * (MAX_BYTES + 1),
        b"\x01\x01",
        b"\x01" + b"\xff" * 12,
    ],
)
def test_what_is_no_expression_is_refused(data: bytes) -> None:
    with pytest.raises(NotUnderstood):
        decode(data)


def test_depth_is_bounded() -> None:
    """Lists in lists, as deep as bytes allow: refused before Python's own bound."""
    nested = b"\x01\x00java.util.ArrayLis\xf4" + b"\x01\x02\x01\x00" * 5000
    with pytest.raises(NotUnderstood, match="too deep"):
        decode(nested)


def test_a_condition_is_not_referred_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """If it were, few bytes could be a tree of any size: each condition of two that both are the one before."""
    whole = next(each.expression for each in vectors() if each.filter == "((ds = '2024-01-01') and (country = 'de'))")
    last = b"\x01\x07org.apache.hadoop.hive.ql.udf.generic.GenericUDFOPAn\xe4"
    assert b"\xf4\x01\x83" in whole and last in whole
    third_is_the_first = whole.replace(b"\xf4\x01\x83", b"\xf4\x01\x84", 1).replace(last, b"\x04" + last, 1)
    assert read(third_is_the_first) is None
    monkeypatch.setattr(kryo, "_ONCE", frozenset())
    decoding._remembered.cache_clear()
    assert read(third_is_the_first) == "((ds = '2024-01-01') and (country = 'de') and (ds = '2024-01-01'))"
    decoding._remembered.cache_clear()


def test_decimals_beyond_their_type_are_refused() -> None:
    """Hive evaluates 100 as a decimal(3,3) as null."""
    data = next(each.expression for each in vectors() if each.filter == "(dc < 100)")
    kind = b"\x03\x01\x06\x00"  # a decimal(3,0)
    assert data.count(kind) == 1 and read(data) is not None
    for beyond in (b"\x03\x01\x06\x06", b"\x03\x01\x04\x00"):
        assert read(data.replace(kind, beyond)) is None


def test_a_function_without_a_place_for_its_result_is_refused() -> None:
    """Hive fails when it evaluates one: a NullPointerException."""
    data = next(each.expression for each in vectors() if each.filter == "(ds = '2024-01-01')")
    name = b"org.apache.hadoop.io.BooleanWritabl\xe5"
    at = data.index(name) - 2  # what says that a class follows, and its number
    with_value = data[at : at + 2 + len(name) + 2]
    assert read(data) is not None
    assert read(data.replace(with_value, b"\0")) is None


def test_long_lists_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    data = next(each.expression for each in vectors() if each.filter == "(ds) IN ('2024-01-01', '2024-01-03')")
    assert read(data) is not None
    decoding._remembered.cache_clear()
    monkeypatch.setattr(decoding, "MOST_VALUES", 1)
    assert read(data) is None
    decoding._remembered.cache_clear()


def test_equal_bytes_are_decoded_once() -> None:
    data = vectors()[0].expression
    assert decode(data) is decode(bytes(bytearray(data)))
    assert decoding._remembered.cache_info().maxsize == decoding.REMEMBERED


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"\x82=", b"\x82<"),  # the sign that Hive would print in place of the comparison's own
        (b"strin\xe7", b"binar\xf9"),
        (b"boolea\xee", b"booleam\xee"),
        (b"\x01d\xf3\x01\x00", b"\x01d'\xf3\x01\x00"),
        (b"2024-01-0\xb1", b"2024'01-0\xb1"),
        (b"2024-01-0\xb1", b"2024\\01-0\xb1"),
        (b"ArrayLis\xf4", b"LinkedLis\xf4"),
    ],
)
def test_what_hive_reads_otherwise_is_refused(before: bytes, after: bytes) -> None:
    data = next(each.expression for each in vectors() if each.filter == "(ds = '2024-01-01')")
    assert before in data
    assert read(data) is not None
    assert read(data.replace(before, after)) is None
