"""Lists of write ids: texts, which of them are equivalent, and what it costs."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hms_cache_proxy.consistency.write_ids import COMPARED_BYTES, equivalent
from hms_cache_proxy.errors import WriteIdsError
from hms_cache_proxy.store.txn_list import IDS_AT_MOST, MAX_ID, NONE_OPEN, ValidTxnList
from hms_cache_proxy.store.write_ids import ValidWriteIdList, lists_by_table

NAME = b"db.t"
NOTHING_OPEN = b"9223372036854775807"

TEXTS = [
    (b"db.t:5:9223372036854775807::", ValidWriteIdList(NAME, 5)),
    (b"db.t:9:1:1,2,3,4,5,6,7:", ValidWriteIdList(NAME, 9, (1, 2, 3, 4, 5, 6, 7), frozenset(), 1)),
    (b"db.t:10:9223372036854775807::4,6", ValidWriteIdList(NAME, 10, (4, 6), frozenset({4, 6}))),
    (b"db.t:3:3:3:2", ValidWriteIdList(NAME, 3, (2, 3), frozenset({2}), 3)),
    (b"db.t:0:9223372036854775807::", ValidWriteIdList(NAME, 0)),
    (b"null:7:2:2:", ValidWriteIdList(None, 7, (2,), frozenset(), 2)),
    (b"db.an odd-name:7:2:2:", ValidWriteIdList(b"db.an odd-name", 7, (2,), frozenset(), 2)),
]
SHORT_FORMS = [
    (b"db.t:5:9223372036854775807", b"db.t:5:9223372036854775807::"),
    (b"db.t:5:9223372036854775807:", b"db.t:5:9223372036854775807::"),
    (b"db.t:5:3:3,4", b"db.t:5:3:3,4:"),
    (b"db.t:5:3:4,3:2,1", b"db.t:5:3:3,4:1,2"),
    (b"db.t:5:9::::::", b"db.t:5:9::"),
    (b"db.t:005:9::", b"db.t:5:9::"),
    (b"NULL:5:9::", b"null:5:9::"),
    (b"", b"null:9223372036854775807:9223372036854775807::"),
]
MALFORMED = [
    b"db.t",
    b"db.t:5",
    b"db.t::9::",
    b":5:9::",
    b"db.t:5:9:a:",
    b"db.t:5:9:1,,2:",
    b"db.t:5:9:,1:",
    b"db.t:5:9:1,:",
    b"db.t:5:9:,:",
    b"db.t:5:9: 1:",
    b"db.t:5:9:1-3:",
    b"db.t:+5:9::",
    b"db.t:-5:9::",
    b"db.t:5:9:3:3",
    b"db.t:5:9:3,3:",
    b"db.t:9223372036854775808:9::",
    b"db.t:5:9223372036854775808::",
    b"db.t:5:9:9223372036854775808:",
    b"db.t:5:9:" + b"1" * 5000 + b":",
    b"db.t:5:9:1:2:3",
    b"db.t:\xd9\xa5:9::",  # ARABIC-INDIC DIGIT FIVE, which Java reads
    b"db.\xc3\xa9:5:9::",
    b"\xff:5:9::",
    b"db.t\n:5:9::",
    b"db.t:5:9::\n",
]
# hwm, open, aborted of two lists, and whether Hive's TxnIdUtils finds them equivalent
VECTORS = [
    ("11:7:7,8:", "12:7:7,8,12:", True),
    ("12:7:7,8,12:", "12:7:7,12:", False),
    ("5:9::", "6:9::", False),
    ("5:9::", "7:6:6,7:", True),
    ("5:9::", "7:6:6:", False),
    ("4:9::", "9:6:6:", False),
    ("10:3:3:5", "10:9::3,5", True),
]


@pytest.mark.parametrize(("text", "value"), TEXTS)
def test_texts(text: bytes, value: ValidWriteIdList) -> None:
    assert ValidWriteIdList.parse(text) == value
    assert value.text() == text


@pytest.mark.parametrize(("text", "whole"), SHORT_FORMS)
def test_short_forms(text: bytes, whole: bytes) -> None:
    assert ValidWriteIdList.parse(text).text() == whole


@pytest.mark.parametrize("text", MALFORMED)
def test_what_is_no_list_proves_nothing(text: bytes) -> None:
    with pytest.raises(WriteIdsError):
        ValidWriteIdList.parse(text)
    assert not equivalent(text, b"db.t:5:9223372036854775807::")


@pytest.mark.parametrize(("first", "second", "same"), VECTORS)
def test_verified_pairs(first: str, second: str, same: bool) -> None:
    a, b = f"DB.T:{first}".encode(), f"db.t:{second}".encode()
    assert equivalent(a, b) == equivalent(b, a) == same


def test_lists_of_other_tables_are_not_equivalent() -> None:
    assert not equivalent(b"db.a:5:9::", b"db.b:5:9::")
    assert equivalent(b"db.a:5:9::", b"DB.A:5:9::")


def test_no_table_is_no_proof() -> None:
    nameless = ValidWriteIdList(None, 5)
    assert not equivalent(b"NULL:5:9223372036854775807::", nameless.text())
    assert not equivalent(b"", b"")
    assert not equivalent(b"", b"db.t:5:9::")
    assert not equivalent(b"db.t:5:9::", b"")


def test_an_id_over_the_high_watermark_proves_nothing() -> None:
    """Hive takes such an id for one below: no server makes such lists."""
    assert not equivalent(b"t:5:9:3,9:", b"t:5:3:3,9:")


@pytest.mark.parametrize("name", [b"", b"null", b"Null", b"a.b:c", b"a.\xc3\xa9", b"a.b\n"])
def test_names_that_no_text_can_have(name: bytes) -> None:
    with pytest.raises(WriteIdsError):
        ValidWriteIdList.of(name, 5)


def test_of_a_server() -> None:
    assert ValidWriteIdList.of(NAME, 7, [5, 3], [5], 3).text() == b"db.t:7:3:3:5"
    assert ValidWriteIdList.of(NAME, 7, [], [], 3).text() == b"db.t:7:9223372036854775807::"
    with pytest.raises(WriteIdsError):
        ValidWriteIdList.of(NAME, 7, [3], [5])
    with pytest.raises(WriteIdsError):
        ValidWriteIdList.of(NAME, 7, [3, 3], [])


# --- what every list promises


@st.composite
def lists(draw: st.DrawFn, table: bytes = NAME) -> ValidWriteIdList:
    """As a server makes them, of so few ids that two are often equivalent or nearly so."""
    high = draw(st.integers(0, 12))
    invalid = draw(st.sets(st.integers(1, high))) if high else set()
    aborted = draw(st.sets(st.sampled_from(sorted(invalid)))) if invalid else set()
    return ValidWriteIdList.of(table, high, invalid, aborted, min(invalid - aborted, default=None))


def valid(one: ValidWriteIdList) -> set[int]:
    """The writes that it shows, up to more than any list here names."""
    return {id_ for id_ in range(1, 20) if one.is_valid(id_)}


@given(lists())
def test_print_and_parse(one: ValidWriteIdList) -> None:
    assert ValidWriteIdList.parse(one.text()) == one
    assert one.min_open == min(one.open, default=NONE_OPEN)
    assert set(one.open) | one.aborted == set(one.invalid)


@given(lists(), lists())
def test_equivalent_is_the_same_valid_writes(a: ValidWriteIdList, b: ValidWriteIdList) -> None:
    assert equivalent(a.text(), b.text()) == equivalent(b.text(), a.text()) == (valid(a) == valid(b))


@given(lists(), st.integers(0, 20))
def test_equivalent_where_all_that_follows_is_invalid(one: ValidWriteIdList, more: int) -> None:
    """Writes that began later, and the same with the first of them committed."""
    high = one.high_watermark
    later = ValidWriteIdList.of(NAME, high + more, {*one.invalid, *range(high + 1, high + more + 1)}, one.aborted)
    assert equivalent(one.text(), later.text())
    shown = ValidWriteIdList.of(NAME, high + more, {*one.invalid, *range(high + 2, high + more + 1)}, one.aborted)
    assert equivalent(one.text(), shown.text()) == (more == 0)


# --- lists of transactions, and of several tables

TXN_TEXTS = [
    (b"20:2:2-7,12:9,11", ValidTxnList(20, 2, (2, 3, 4, 5, 6, 7, 12), (9, 11))),
    (b"20:9223372036854775807::", ValidTxnList(20, NONE_OPEN, (), ())),
    (b"20:2:2,3,4,5:", ValidTxnList(20, 2, (2, 3, 4, 5), ())),
    (b"20:2:2-6:", ValidTxnList(20, 2, (2, 3, 4, 5, 6), ())),
    (b"20:9223372036854775807::1-5,7,8", ValidTxnList(20, NONE_OPEN, (), (1, 2, 3, 4, 5, 7, 8))),
]


@pytest.mark.parametrize(("text", "value"), TXN_TEXTS)
def test_transaction_texts(text: bytes, value: ValidTxnList) -> None:
    assert ValidTxnList.parse(text) == value
    assert value.text() == text
    plain = value.text(ranges=False)
    assert b"-" not in plain and ValidTxnList.parse(plain) == value


@pytest.mark.parametrize(
    ("text", "whole"),
    [(b"5:9", b"5:9::"), (b"5:3:3", b"5:3:3:"), (b"", NOTHING_OPEN + b":" + NOTHING_OPEN + b"::")],
)
def test_short_transaction_texts(text: bytes, whole: bytes) -> None:
    assert ValidTxnList.parse(text).text() == whole


@pytest.mark.parametrize(
    "text",
    [
        b"5",
        b"5:",
        b":5::",
        b"5:9:2-:",
        b"5:9:-2:",
        b"5:9:1,,2:",
        b"5:9:5-2:",
        b"5:9:2-3-4:",
        b"5:9:3,2:",
        b"5:9:2,2:",
        b"5:9:2-5,5:",
        b"5:9:2:2",
        b"5:9:1:2:3",
        b"5:9:1-%d:" % MAX_ID,
        b"5:9:1-9,10-%d:" % (IDS_AT_MOST + 1),
        b"5:9:%d:" % (MAX_ID + 1),
        b"9223372036854775808:9::",
        b"5:9223372036854775808::",
        b"5:9: 1:",
        b"\xff",
    ],
)
def test_what_is_no_list_of_transactions(text: bytes) -> None:
    with pytest.raises(WriteIdsError):
        ValidTxnList.parse(text)


@given(st.sets(st.integers(0, 40)), st.sets(st.integers(0, 40)), st.integers(0, 50))
def test_transactions_print_and_parse(opened: set[int], aborted: set[int], high: int) -> None:
    opened = opened - aborted
    one = ValidTxnList(high, min(opened, default=NONE_OPEN), tuple(sorted(opened)), tuple(sorted(aborted)))
    assert ValidTxnList.parse(one.text()) == ValidTxnList.parse(one.text(ranges=False)) == one


def test_lists_of_several_tables() -> None:
    assert lists_by_table(b"7$db.t:5:9223372036854775807::$db.u:4:4:4:2") == {
        NAME: ValidWriteIdList(NAME, 5),
        b"db.u": ValidWriteIdList(b"db.u", 4, (2, 4), frozenset({2}), 4),
    }
    assert lists_by_table(b"7") == lists_by_table(b"7$") == lists_by_table(b"") == {}
    assert lists_by_table(b"7$db.t:5:9::$db.t:6:9::") == {NAME: ValidWriteIdList(NAME, 6, min_open=9)}
    assert lists_by_table(b"7$$db.t:5:9::") == {
        None: ValidWriteIdList.parse(b""),
        NAME: ValidWriteIdList(NAME, 5, min_open=9),
    }
    for bad in (b"$db.t:5:9::", b"x$db.t:5:9::", b"7$db.t", b"9223372036854775808"):
        with pytest.raises(WriteIdsError):
            lists_by_table(bad)


# --- what it costs


def many(count: int, name: bytes = NAME) -> bytes:
    """A list with every second id aborted."""
    return ValidWriteIdList.of(name, 2 * count + 1, (written := range(2, 2 * count + 1, 2)), written).text()


def seconds(text: bytes, cached: bytes) -> float:
    """Of the processor, of the fastest of three comparisons."""
    times = []
    for _ in range(3):
        began = time.thread_time()
        equivalent(text, cached)
        times.append(time.thread_time() - began)
    return min(times)


def test_long_lists_cost_what_they_are_long() -> None:
    """A request may have megabytes of ids: it is not read at all beyond COMPARED_BYTES, and linear up to there."""
    long = many(100_000)
    assert len(long) > COMPARED_BYTES
    assert equivalent(long, long) and not equivalent(long, many(100_001))
    assert seconds(long, many(100_001)) < 0.001
    assert len(ValidWriteIdList.parse(long).invalid) == 100_000
    short, longer = many(300), many(4800)
    assert len(longer) < COMPARED_BYTES
    assert seconds(longer, many(4799)) < 60 * max(seconds(short, many(299)), 1e-4)
    assert seconds(b"db.t:5:9:" + b"1," * 16_000, b"db.t:5:9::") < 0.05
    assert seconds(b"db.t:5:9:" + b"1" * 32_000, b"db.t:5:9::") < 0.05
    assert seconds(b"db.t:5:9" + b":" * 32_000 + b"x", b"db.t:5:9::") < 0.05
