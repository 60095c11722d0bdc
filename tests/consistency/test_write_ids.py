"""Lists of write ids: texts, which of two is newer, what changes them, and what it costs."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hms_cache_proxy.consistency.txn_write_ids import ValidTxnWriteIdList
from hms_cache_proxy.consistency.write_ids import COMPARED_BYTES, compare, equivalent
from hms_cache_proxy.errors import WriteIdsError
from hms_cache_proxy.store.txn_list import IDS_AT_MOST, MAX_ID, NONE_OPEN, ValidTxnList
from hms_cache_proxy.store.write_ids import FILLED_AT_MOST, ValidWriteIdList

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
# hwm, open, aborted of two lists, and which is newer: run against Hive's TxnIdUtils
VECTORS = [
    ("11:7:7,8:", "12:7:7,8,12:", 0),
    ("12:7:7,8,12:", "12:7:7,12:", -1),
    ("5:9::", "6:9::", -1),
    ("5:9::", "7:6:6,7:", 0),
    ("5:9::", "7:6:6:", -1),
    ("4:9::", "9:6:6:", -1),
    ("10:3:3:5", "10:9::3,5", 0),
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


@pytest.mark.parametrize(("first", "second", "order"), VECTORS)
def test_verified_orders(first: str, second: str, order: int) -> None:
    a, b = f"DB.T:{first}".encode(), f"db.t:{second}".encode()
    assert compare(ValidWriteIdList.parse(a), ValidWriteIdList.parse(b)) == order
    assert compare(ValidWriteIdList.parse(b), ValidWriteIdList.parse(a)) == -order
    assert equivalent(a, b) == equivalent(b, a) == (order == 0)


def test_other_tables_compare_by_name() -> None:
    lists = [ValidWriteIdList(name, 5) for name in (b"db.a", b"db.B", b"db.abc")]
    assert [compare(a, b) for a in lists for b in lists] == [0, -1, -2, 1, 0, 1, 2, -1, 0]
    assert not equivalent(lists[0].text(), lists[1].text())


def test_no_table_is_no_proof() -> None:
    nameless = ValidWriteIdList(None, 5)
    with pytest.raises(WriteIdsError):
        compare(nameless, nameless)
    assert not equivalent(b"NULL:5:9223372036854775807::", nameless.text())
    assert not equivalent(b"", b"")
    assert not equivalent(b"", b"db.t:5:9::")
    assert not equivalent(b"db.t:5:9::", b"")


def test_an_id_over_the_high_watermark_proves_nothing() -> None:
    """compare follows Hive and takes such an id for one below: no server makes such lists."""
    assert compare(ValidWriteIdList.parse(b"t:5:9:3,9:"), ValidWriteIdList.parse(b"t:5:3:3,9:")) == 0
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

ids = st.integers(1, 12)


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
    assert all(one.is_aborted(id_) == (id_ in one.aborted) for id_ in range(20))


@given(lists(), lists())
def test_equivalent_is_the_same_valid_writes(a: ValidWriteIdList, b: ValidWriteIdList) -> None:
    assert (compare(a, b) == 0) == (valid(a) == valid(b)) == equivalent(a.text(), b.text())


@given(lists(), lists(), lists())
def test_an_order(a: ValidWriteIdList, b: ValidWriteIdList, c: ValidWriteIdList) -> None:
    assert compare(a, b) == -compare(b, a)
    assert compare(a, a) == 0
    if compare(a, b) <= 0 and compare(b, c) <= 0:
        assert compare(a, c) <= 0
        assert (compare(a, c) == 0) == (compare(a, b) == compare(b, c) == 0)


@given(lists(), lists())
def test_more_valid_writes_are_newer(a: ValidWriteIdList, b: ValidWriteIdList) -> None:
    if valid(a) > valid(b):
        assert compare(a, b) == 1


@given(lists(), st.lists(ids, min_size=1))
def test_allocated(one: ValidWriteIdList, new: list[int]) -> None:
    grown = one.allocated(*new)
    assert grown.high_watermark == max(one.high_watermark, *new)
    assert valid(grown) == valid(one) and compare(grown, one) == 0
    assert grown.aborted == one.aborted and set(grown.open) >= set(one.open)
    assert grown.allocated(*new) == grown
    assert one.allocated() is one


@given(lists(), ids)
def test_committed(one: ValidWriteIdList, id_: int) -> None:
    done = one.committed(id_)
    assert valid(done) == valid(one) | {id_}
    assert compare(done, one) == (0 if one.is_valid(id_) else 1)
    assert done.committed(id_) == done
    assert one.allocated(id_).committed(id_) == done
    assert ValidWriteIdList.parse(done.text()) == done


@given(lists(), ids)
def test_aborted(one: ValidWriteIdList, id_: int) -> None:
    done = one.abort(id_)
    assert valid(done) == valid(one) - {id_}
    assert done.is_aborted(id_) and done.abort(id_) == done
    assert ValidWriteIdList.parse(done.text()) == done


@given(lists(), st.lists(st.tuples(st.sampled_from("ACX"), ids)))
def test_a_history(one: ValidWriteIdList, changes: list[tuple[str, int]]) -> None:
    """What is valid after a history is what it says, and what is printed is in order."""
    expected = valid(one)
    for kind, id_ in changes:
        if kind == "A":
            one = one.allocated(id_)
        elif kind == "C":
            one, expected = one.committed(id_), expected | {id_}
        else:
            one, expected = one.abort(id_), expected - {id_}
    assert valid(one) == expected
    assert list(one.invalid) == sorted(set(one.invalid)) and one.aborted <= set(one.invalid)


def test_a_gap_that_no_metastore_makes() -> None:
    for change in (ValidWriteIdList.allocated, ValidWriteIdList.committed, ValidWriteIdList.abort):
        with pytest.raises(WriteIdsError):
            change(ValidWriteIdList(NAME, 5), 6 + FILLED_AT_MOST)
        with pytest.raises(WriteIdsError):
            change(ValidWriteIdList(NAME, 5), 0)


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
    for id_ in range(60):
        assert one.is_valid(id_) == (id_ <= high and id_ not in opened | aborted)


def test_lists_of_several_tables() -> None:
    text = b"7$db.t:5:9223372036854775807::$db.u:4:4:4:2"
    several = ValidTxnWriteIdList.parse(text)
    assert several.transaction == 7 and several.text() == text
    assert several.of(b"db.u") == ValidWriteIdList(b"db.u", 4, (2, 4), frozenset({2}), 4)
    assert several.of(b"db.x") is None
    assert ValidTxnWriteIdList.parse(b"7") == ValidTxnWriteIdList.parse(b"7$") == ValidTxnWriteIdList(7)
    assert ValidTxnWriteIdList.parse(b"7$db.t:5:9::$db.t:6:9::").of(NAME) == ValidWriteIdList(NAME, 6, min_open=9)
    assert ValidTxnWriteIdList.parse(b"") == ValidTxnWriteIdList(None)
    with pytest.raises(WriteIdsError):
        ValidTxnWriteIdList(None).text()
    for bad in (b"$db.t:5:9::", b"x$db.t:5:9::", b"7$$db.t:5:9::", b"7$db.t", b"9223372036854775808"):
        with pytest.raises(WriteIdsError):
            ValidTxnWriteIdList.parse(bad)


# --- what it costs


def many(count: int, name: bytes = NAME) -> bytes:
    """A list with every second id aborted."""
    return ValidWriteIdList.of(name, 2 * count + 1, (written := range(2, 2 * count + 1, 2)), written).text()


def seconds(text: bytes, cached: bytes) -> float:
    """Of the fastest of three comparisons."""
    times = []
    for _ in range(3):
        began = time.perf_counter()
        equivalent(text, cached)
        times.append(time.perf_counter() - began)
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
