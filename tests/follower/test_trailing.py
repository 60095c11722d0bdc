"""The log of Hive 2.3: ids that come twice, late, or from a counter that went back are all seen, once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from hms_cache_proxy.follower.log import Followed
from hms_cache_proxy.follower.step import Position, Reset, ResetReason
from hms_cache_proxy.follower.trailing import FIRST_SLACK, SLACK, WINDOW_S, TrailingLog
from hms_cache_proxy.store.protocol import PAGE_BYTES, EventRow
from tests.chance import chance
from tests.follower import rows
from tests.lengths import by_tier

NOWHERE = Position(0, None)


@dataclass
class OldLog:
    """A log as `Snapshot` shows it to a follower; nothing of its other methods is asked for."""

    event_id: int = 0
    rows: list[EventRow] = field(default_factory=list)
    reads: int = 0
    given: int = 0
    running: tuple[int, int] | None = None

    def event_keys(self, after: int) -> None:
        return None

    def under_way(self) -> tuple[int, int] | None:
        return self.running

    def log(self, event_id: int, table: str, *, counter: int | None = None) -> None:
        self.rows.append(rows.row("CREATE_TABLE", "{}", id=event_id, table=table, format="json-0.2"))
        self.rows.sort(key=lambda row: row.event_id)
        self.event_id = max(self.event_id, event_id) if counter is None else counter

    def events(self, after: int, limit: int) -> list[EventRow]:
        self.reads += 1
        return [replace(row, nl_id=0) for row in self.rows if row.event_id > after][:limit]

    def overtaken(self) -> list[EventRow]:
        return []

    def oldest_event_id(self) -> int | None:
        return self.rows[0].event_id if self.rows else None


class Stepped:
    """A TrailingLog run through steps, and where the cache stands."""

    def __init__(self, source: OldLog, position: Position = NOWHERE) -> None:
        self.now_s = 1000.0
        self.source = source
        self.log = TrailingLog(lambda: None, lambda: self.now_s)
        self.position = position
        self.verified = False

    def begin(self) -> None:
        self.log.begin(self.source)  # type: ignore[arg-type]  # the part of a Snapshot that is used
        self.position = self.log.end(self.source, NOWHERE)  # type: ignore[arg-type]
        self.log.committed()
        self.verified = True

    def step(self, *, commit: bool = True) -> set[str] | ResetReason:
        """Tables named by new rows."""
        found = self.log.follow(self.source, self.position, verified=self.verified)  # type: ignore[arg-type]
        if isinstance(found, Reset):
            return found.reason
        assert isinstance(found, Followed)
        end = self.log.end(self.source, self.position)  # type: ignore[arg-type]
        if commit:
            assert end.cursor >= self.position.cursor
            self.position = end
            self.log.committed()
            self.verified = True
        names = {key[2].decode() for key in found.batch.affected.tables}
        assert len(names) == found.batch.rows
        return names


def test_rows_are_seen_once() -> None:
    source = OldLog()
    steps = Stepped(source)
    steps.begin()
    assert steps.step() == set()
    source.log(1, "a")
    source.log(2, "b")
    assert steps.step() == {"a", "b"}
    assert steps.step() == set()
    source.log(3, "c")
    assert steps.step() == {"c"}
    assert steps.position.cursor == 3


def test_the_same_id_again() -> None:
    source = OldLog()
    steps = Stepped(source)
    steps.begin()
    source.log(1, "a")
    assert steps.step() == {"a"}
    source.log(1, "b")
    assert steps.step() == {"b"}
    source.log(2, "c")
    source.log(2, "d")
    assert steps.step() == {"c", "d"}


def test_a_smaller_id_comes_late() -> None:
    source = OldLog()
    steps = Stepped(source)
    for number in range(1, 11):
        source.log(number, f"t{number}")
    steps.begin()
    source.log(13, "late but one")
    assert steps.step() == {"late but one"}
    source.log(12, "late")
    source.log(11, "later")
    assert steps.step() == {"late", "later"}
    assert steps.position.cursor == 13


def test_the_counter_goes_back() -> None:
    source = OldLog()
    steps = Stepped(source)
    steps.begin()
    for number in range(1, 200):
        source.log(number, f"t{number}")
        steps.now_s += 0.01
        assert steps.step() == {f"t{number}"}
    source.log(30, "long", counter=30)  # its change took 2 s: it sets the counter to what it was then
    assert steps.step() == {"long"}
    for number in range(31, 60):
        source.log(number, f"again {number}", counter=number)
        steps.now_s += 0.5
        assert steps.step() == {f"again {number}"}
    assert steps.position.cursor == 199


def test_the_window_moves_on() -> None:
    """An old row is not read for ever; what comes later than the window provides for is missed, as documented."""
    source = OldLog()
    steps = Stepped(source)
    steps.begin()
    for number in range(1, 1000):
        source.log(number, f"t{number}")
        steps.now_s += 1
        steps.step()
    assert steps.log._window is not None and len(steps.log._window.rows) <= WINDOW_S + SLACK + 2


def test_a_transaction_that_takes_longer_than_the_window() -> None:
    """The store says that it still runs: then the window reaches back to before it began."""
    for told in (True, False):
        source = OldLog(running=(5, 5))
        steps = Stepped(source)
        steps.begin()  # transaction 5 begins after this
        for number in range(2, 300):
            source.log(number, f"t{number}")
            source.running = (5, 5 + number) if told else None
            steps.now_s += 1
            steps.step()
        source.log(1, "late", counter=299)
        source.running = (400, 400) if told else None
        assert steps.step() == ({"late"} if told else set())
        for number in range(300, 330):
            source.log(number, f"t{number}")
            steps.now_s += 1
            steps.step()
        assert len(steps.log._samples) < 30  # what was kept for it is forgotten


def test_many_steps_while_a_transaction_goes_on() -> None:
    """Each step looks at all samples of that time. The counter of each step counts all the same."""
    source = OldLog(running=(5, 5))
    steps = Stepped(source)
    steps.begin()
    for number in range(400):
        source.log(100 + number, f"t{number}", counter=90 if number == 203 else None)
        source.running = (5, 6 + number)
        steps.now_s += 0.1
        assert steps.step() == {f"t{number}"}
    assert len(steps.log._samples) <= 42
    source.running = (206, 500)  # the one that began when the counter had gone back
    steps.now_s += 2 * WINDOW_S
    for number in range(400, 403):
        source.log(100 + number, f"t{number}")
        assert steps.step() == {f"t{number}"}
        steps.now_s += 1
    source.log(91, "late", counter=502)
    assert steps.step() == {"late"}


class KeyedLog(OldLog):
    """A store that tells rows apart without reading them whole."""

    def event_keys(self, after: int) -> list[tuple[int, int]]:  # type: ignore[override]  # SQL has them
        return [(row.event_id, row.nl_id) for row in self.rows if row.event_id > after]

    def events(self, after: int, limit: int) -> list[EventRow]:
        self.reads += 1
        found = [row for row in self.rows if row.event_id > after][:limit]
        self.given += len(found)
        return found


def test_a_long_window_is_not_read_again_for_each_new_row() -> None:
    """A transaction that runs on and on: its rows were read again in every step, with their messages."""
    source = KeyedLog(running=(5, 5))
    steps = Stepped(source)
    steps.begin()
    for number in range(2, 500):
        source.log(number, f"t{number}")
        source.running = (5, 5 + number)
        steps.now_s += 1
        assert steps.step() == {f"t{number}"}
    window = steps.log._window
    assert window is not None and len(window.rows) == 498 and not any(row.message for row in window.rows.values())
    assert source.given < 1100
    source.log(1, "late", counter=499)
    assert steps.step() == {"late"}
    source.rows[-1] = replace(source.rows[-1], message='{"another": "log"}')
    source.log(500, "next")
    assert steps.step() is ResetReason.OTHER_HISTORY


def test_an_idle_log_is_not_read_again() -> None:
    source = KeyedLog()
    steps = Stepped(source)
    steps.begin()
    source.log(1, "a")
    assert steps.step() == {"a"}
    reads = source.reads
    for _ in range(20):
        steps.now_s += 1
        assert steps.step() == set()
    assert source.reads == reads
    source.rows[0] = replace(source.rows[0], nl_id=7, table=b"b")  # an id that was given twice, the other row gone
    assert steps.step() == {"b"} or source.reads > reads


def test_a_failed_step_is_repeated() -> None:
    source = OldLog()
    steps = Stepped(source)
    steps.begin()
    source.log(1, "a")
    assert steps.step(commit=False) == {"a"}
    assert steps.step() == {"a"}
    assert steps.step() == set()


def test_what_is_logged_while_objects_are_read() -> None:
    source = OldLog()
    steps = Stepped(source)
    steps.begin()
    source.log(2, "a")
    followed = steps.log.follow(source, steps.position, verified=True)  # type: ignore[arg-type]
    assert isinstance(followed, Followed)
    source.log(1, "late")
    source.log(3, "b")
    overtaken = steps.log.overtaken(source)  # type: ignore[arg-type]
    assert [row.table for row in overtaken] == [b"late", b"b"]
    steps.position = steps.log.end(source, steps.position)  # type: ignore[arg-type]
    steps.log.committed()
    assert steps.step() == {"late", "b"}


def test_a_restart_takes_the_window_for_new() -> None:
    source = OldLog()
    steps = Stepped(source)
    for number in range(1, 2 * FIRST_SLACK):
        source.log(number, f"t{number}")
    steps.begin()
    source.log(2 * FIRST_SLACK, "last")
    assert steps.step() == {"last"}
    source.log(2 * FIRST_SLACK - 3, "late")  # while nobody looks
    source.log(2 * FIRST_SLACK + 1, "next")
    again = Stepped(source, steps.position)
    found = again.step()
    assert isinstance(found, set) and {"late", "next", "last"} <= found and len(found) < 2 * FIRST_SLACK
    assert again.step() == set()


@pytest.mark.parametrize("rows_per_page", [3, 1000])
def test_pages(rows_per_page: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of one id may lie on both sides of a page's end."""
    monkeypatch.setattr("hms_cache_proxy.follower.trailing.EVENTS_PER_READ", rows_per_page)
    source = OldLog()
    steps = Stepped(source)
    steps.begin()
    expected: set[str] = set()
    for number in (1, 2, 2, 2, 2, 2, 3, 4, 4, 4, 5):
        name = f"t{len(expected)}"
        source.log(number, name)
        expected.add(name)
    assert steps.step() == expected


def test_pages_that_are_cut_off_for_their_bytes() -> None:
    """As a database gives them: all rows of an id on one page, and then no more if they are large."""

    class Large(OldLog):
        def events(self, after: int, limit: int) -> list[EventRow]:
            page = super().events(after, limit)
            return [row for row in page if row.event_id == page[0].event_id]

    source = Large()
    steps = Stepped(source)
    steps.begin()
    for event_id, table in ((1, "a"), (2, "b"), (2, "c"), (3, "d")):
        source.rows.append(rows.row("CREATE_TABLE", "x" * (PAGE_BYTES // 4), id=event_id, table=table))
        source.event_id = event_id
    assert steps.step() == {"a", "b", "c", "d"}
    assert source.reads < 10


def stood(cursor: int) -> tuple[OldLog, Stepped]:
    source = OldLog()
    for number in range(1, cursor + 1):
        source.log(number, f"t{number}")
    steps = Stepped(source)
    steps.begin()
    return source, steps


def test_another_log() -> None:
    _, steps = stood(20)
    other, _ = stood(30)
    other.rows = [replace(row, time_s=row.time_s + 9) for row in other.rows]
    steps.source = other
    assert steps.step() is ResetReason.OTHER_HISTORY


def test_a_log_that_begins_again() -> None:
    _, steps = stood(20)
    steps.source = OldLog()
    assert steps.step() is ResetReason.WENT_BACK
    steps.source, _ = stood(3)
    assert steps.step() is ResetReason.WENT_BACK


def test_purged() -> None:
    source, steps = stood(20)
    source.rows.clear()
    assert steps.step() == set()  # idle for longer than the log is kept
    source.log(21, "a")
    assert steps.step() == {"a"}
    source.rows.clear()
    source.log(24, "b")  # 22 and 23 are gone unseen
    assert steps.step() is ResetReason.PURGED
    restarted = Stepped(source, steps.position)
    assert restarted.step() is ResetReason.PURGED


def test_concurrent_writers_without_a_lock() -> None:
    """Writers read the counter, work for a while, and commit their row and counter + 1, in any order."""
    rng, source = chance("writers"), OldLog()
    steps = Stepped(source)
    steps.begin()
    under_way: list[tuple[float, int, str]] = []
    expected: set[str] = set()
    seen: set[str] = set()
    for number in range(int(by_tier(test=1000, all=3000, every=3000))):
        steps.now_s += 0.01
        if rng.random() < 0.6:
            under_way.append((steps.now_s + rng.expovariate(5), source.event_id + 1, f"t{number}"))
        for one in [one for one in under_way if one[0] <= steps.now_s]:
            under_way.remove(one)
            source.log(one[1], one[2], counter=one[1])
            expected.add(one[2])
        if rng.random() < 0.3:
            found = steps.step()
            assert isinstance(found, set) and not found & seen
            seen |= found
    assert seen | steps.step() == expected  # type: ignore[operator]  # it is a set: no Reset
