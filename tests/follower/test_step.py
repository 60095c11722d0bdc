"""Where the log may be followed and where it may not; tickets; transactions."""

from __future__ import annotations

import time

import pytest

from hms_cache_proxy.cache import targets
from hms_cache_proxy.follower.affected import Affected
from hms_cache_proxy.follower.step import (
    LONGEST_NAME_BYTES,
    MAX_TABLES_PER_STEP,
    EventBatch,
    LogState,
    Position,
    Reset,
    ResetReason,
    Transactions,
    continues,
    gather,
    requested,
    too_much,
)
from hms_cache_proxy.store.protocol import EventRow, TableKey
from tests.follower import rows

T: TableKey = (b"hive", b"d", b"t")
U: TableKey = (b"hive", b"d", b"u")
A, B = b"fingerprint a", b"fingerprint b"

LOGS = [
    # position, log, verified before, what follows
    ((10, A), (10, 1, A), False, None),
    ((10, A), (12, 1, A), False, None),
    ((10, A), (9, 1, None), True, ResetReason.WENT_BACK),
    ((10, A), (10, 1, B), True, ResetReason.OTHER_HISTORY),
    ((10, None), (10, 1, B), True, ResetReason.OTHER_HISTORY),
    ((10, A), (15, 5, None), True, ResetReason.OTHER_HISTORY),  # a hole where the cursor was
    ((10, A), (10, None, None), True, None),  # idle for longer than the log is kept
    ((10, A), (10, None, None), False, ResetReason.PURGED),
    ((10, A), (12, 11, None), True, None),
    ((10, A), (12, 11, None), False, ResetReason.PURGED),
    ((10, A), (20, 15, None), True, ResetReason.PURGED),
    ((10, A), (20, None, None), True, ResetReason.PURGED),
    ((10, None), (10, 1, None), True, None),  # ids that went on without rows
    ((10, None), (12, 1, None), True, None),
    ((10, None), (12, 1, None), False, ResetReason.OTHER_HISTORY),
    ((0, None), (0, None, None), False, None),
    ((0, None), (3, 1, None), False, None),
]


@pytest.mark.parametrize(("position", "log", "verified", "reason"), LOGS)
def test_continues(
    position: tuple[int, bytes | None],
    log: tuple[int, int | None, bytes | None],
    verified: bool,
    reason: ResetReason | None,
) -> None:
    answer = continues(Position(*position), LogState(*log), verified=verified)
    assert answer == (None if reason is None else Reset(reason))


def created(*ids: int) -> list[EventRow]:
    return [rows.row("CREATE_TABLE", {}, id=id) for id in ids]


GATHERED = [
    (10, 10, (), None),
    (10, 13, (11, 12, 13), None),
    (10, 13, (12, 13), ResetReason.PURGED),
    (10, 13, (), ResetReason.PURGED),
    (10, 13, (11, 13), ResetReason.GAP),
    (10, 13, (11, 12), ResetReason.GAP),
    (10, 13, (11, 12, 12, 13), ResetReason.GAP),
    (10, 12, (11, 12, 13), ResetReason.GAP),
]


@pytest.mark.parametrize(("cursor", "last", "ids", "reason"), GATHERED)
def test_gather(cursor: int, last: int, ids: tuple[int, ...], reason: ResetReason | None) -> None:
    answer = gather(cursor, last, created(*ids))
    if reason is not None:
        assert answer == Reset(reason)
    else:
        assert isinstance(answer, EventBatch)
        assert answer.rows == last - cursor
        assert answer.affected.tables == ({T} if ids else set())
        assert answer.results == ({("CREATE_TABLE", "applied"): len(ids)} if ids else {})


def test_poison_is_counted_and_passed() -> None:
    answer = gather(0, 3, [rows.row("ADD_PARTITION", "?", id=1), rows.row("NEW", {}, id=2), *created(3)])
    assert isinstance(answer, EventBatch)
    assert answer.results == {
        ("ADD_PARTITION", "poison"): 1,
        ("NEW", "unknown"): 1,
        ("CREATE_TABLE", "applied"): 1,
    }


def test_too_much() -> None:
    assert too_much(Affected()) is None
    assert too_much(Affected(everything=True)) == Reset(ResetReason.EVERYTHING)
    many = frozenset((b"hive", b"d", b"%d" % n) for n in range(MAX_TABLES_PER_STEP + 1))
    assert too_much(Affected(tables=many)) == Reset(ResetReason.BACKLOG)


def test_tickets() -> None:
    table, database = targets.table(*T), targets.database(*T[:2])
    assert requested(set()).nothing
    assert requested({table}) == Affected(tables=frozenset({T}), targets=frozenset({table}))
    assert requested({database}).databases == {T[:2]}
    partitions = requested({table, b"p" + table[1:]})
    assert (partitions.tables, partitions.partitions) == ({T}, {T: None})
    lists = {targets.databases(b"hive"), targets.tables(*T[:2]), *targets.MARKED}
    rights = {targets.ROLES, targets.WIDE_RIGHTS, targets.rights(*T), targets.rights(*T[:2])}
    for some in (lists, rights):
        assert requested(some) == Affected(targets=frozenset(some))
    assert requested({targets.ALL}).everything
    assert requested({targets.UNKNOWN}).nothing
    assert requested({b"x"}).everything


def test_a_name_that_is_too_long_for_any_object_is_not_looked_for() -> None:
    """A few hundred of them made a statement that MariaDB refused, with each step again."""
    long = b"'" * (LONGEST_NAME_BYTES + 1)
    whole, one = b"p" + b"\0".join((*T[:2], long)), targets.called(*T, long)
    for target in (targets.table(*T[:2], long), targets.table(T[0], long, T[2]), targets.database(T[0], long)):
        assert requested({target}) == Affected(targets=frozenset({target}))
    assert requested({whole}) == Affected(targets=frozenset({targets.table(*T[:2], long)}))
    assert requested({one}) == Affected(targets=frozenset({targets.table(*T)}))
    assert requested({targets.table(*T[:2], long[1:])}).tables


def test_a_name_with_nul_is_no_reason_to_load_everything() -> None:
    """Any client can send one in a write, which the metastore refuses."""
    odd = {targets.table(*T[:2], b"a\0b"), targets.table(b"hive", b"a\0b", b"t"), targets.database(b"hive", b"a\0b")}
    assert requested(odd) == Affected(targets=frozenset(odd))
    named = {targets.called(*T[:2], b"a\0b", b"p=1"), targets.partitions(*T[:2], b"a\0b")}
    assert not requested(named).everything


def no_transactions(ids: list[int]) -> list[tuple[int, bytes, bytes]]:
    return []


def test_transactions_name_their_tables_when_they_end() -> None:
    known = Transactions()
    begun = Affected(write_ids=frozenset({(3, T)}))
    assert known.resolve(begun, no_transactions) == begun
    known = known.after(begun)
    ended = Affected(ended=frozenset({3, 99}))
    for _ in range(2):  # until the commit has happened, the answer is the same
        assert known.resolve(ended, no_transactions).tables == {T}
    assert Transactions(known.packed()).resolve(ended, no_transactions).tables == {T}, "in the next process"
    known = known.after(ended)
    assert known.packed() == b""
    assert known.resolve(ended, no_transactions).tables == set()
    both = Affected(write_ids=frozenset({(5, T)}), ended=frozenset({5}))
    assert known.resolve(both, no_transactions).tables == {T}


def test_transactions_are_bounded() -> None:
    known = Transactions(limit=2)
    for number in (1, 2, 3):
        known = known.after(Affected(write_ids=frozenset({(number, T)})))
    assert known.resolve(Affected(ended=frozenset({1})), no_transactions).tables == set()
    assert known.resolve(Affected(ended=frozenset({3})), no_transactions).tables == {T}


def test_a_transaction_without_open_writes_is_forgotten() -> None:
    """Hive 3.1 logs nothing when one times out. One table that was not read may still be written."""
    known = Transactions().after(Affected(write_ids=frozenset({(3, T), (4, T), (5, T), (5, U), (6, U)})))
    later = known.after(Affected(), {(4, T)}, {T})
    gone = later.resolve(Affected(ended=frozenset({3})), lambda ids: [(number, b"d", b"looked up") for number in ids])
    assert gone.tables == {(b"hive", b"d", b"looked up")}
    assert later.resolve(Affected(ended=frozenset({4, 6})), no_transactions).tables == {T, U}
    assert later.resolve(Affected(ended=frozenset({5})), no_transactions).tables == {T, U}
    both_read = later.after(Affected(), {(4, T), (6, U)}, {T, U})
    assert both_read.packed() == later.after(Affected(ended=frozenset({5}))).packed()
    assert known.after(Affected(), set(), set()) is known


def test_a_transaction_of_many_tables_costs_no_more_for_each() -> None:
    def cost_s(tables: int) -> float:
        begun = Affected(write_ids=frozenset((3, (b"hive", b"d", b"%d" % number)) for number in range(tables)))
        began_s = time.process_time()
        known = Transactions(Transactions().after(begun).packed())
        took_s = time.process_time() - began_s
        assert len(known.resolve(Affected(ended=frozenset({3})), no_transactions).tables) == tables
        return took_s

    few, many = (min(cost_s(tables) for _ in range(3)) for tables in (1_000, 16_000))
    assert many < 64 * few, "for 16 times as many"


def test_transactions_that_began_unseen_are_looked_up() -> None:
    asked: list[list[int]] = []

    def look_up(ids: list[int]) -> list[tuple[int, bytes, bytes]]:
        asked.append(ids)
        return [(9, b"d", b"t")]

    known = Transactions()
    known = known.after(Affected(write_ids=frozenset({(3, (b"hive", b"d", b"u"))})))
    affected = known.resolve(Affected(ended=frozenset({3, 9, 7})), look_up)
    assert affected.tables == {T, (b"hive", b"d", b"u")}
    assert asked == [[7, 9]]


P, Q, R = (b"hive", b"d", b"a"), (b"hive", b"d", b"b"), (b"hive", b"d", b"c")
RENAMES = [
    # renames in the step of the write, in the next one, in that of the end; tables that are read at the end
    ((), (), (), {P}),
    (((P, Q),), (), (), {P, Q}),
    ((), ((P, Q),), (), {P, Q}),
    ((), (), ((P, Q),), {P, Q}),
    ((), ((P, Q), (Q, R)), (), {P, Q, R}),
    (((P, Q),), (), ((Q, R),), {P, Q, R}),
    ((), ((Q, R), (P, Q)), (), {P, Q}),  # the other table made room
    ((), ((R, Q),), (), {P}),
]


@pytest.mark.parametrize(("first", "second", "last", "read"), RENAMES)
def test_transactions_follow_renames(
    first: tuple[tuple[TableKey, TableKey], ...],
    second: tuple[tuple[TableKey, TableKey], ...],
    last: tuple[tuple[TableKey, TableKey], ...],
    read: set[TableKey],
) -> None:
    known = Transactions().after(Affected(write_ids=frozenset({(3, P)}), renamed=first))
    known = Transactions(known.after(Affected(renamed=second)).packed())
    ended = known.resolve(Affected(ended=frozenset({3}), renamed=last), no_transactions)
    assert ended.tables == read
    assert ended.targets == {targets.table(*key) for key in read}
    begun = Affected(write_ids=frozenset({(3, P)}), renamed=first)
    in_one_step = Affected.merge((begun, Affected(renamed=second), Affected(renamed=last, ended=frozenset({3}))))
    assert Transactions().resolve(in_one_step, no_transactions).tables == read
    looked_up = Affected(renamed=(*first, *second, *last), ended=frozenset({3}))
    assert Transactions().resolve(looked_up, lambda ids: [(3, b"d", b"a")]).tables == read
