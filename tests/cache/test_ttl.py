"""The loading cache against a plain model of one, and its rules one by one (cache/ttl.py)."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from hms_cache_proxy.cache.targets import ALL
from hms_cache_proxy.cache.ttl import (
    ENTRY_OVERHEAD_BYTES,
    EntryKind,
    Load,
    NewEntry,
    TtlCache,
    key_of,
)
from hms_cache_proxy.cache.ttl_change import Bounds
from hms_cache_proxy.cache.ttl_holds import HOLDS
from hms_cache_proxy.consistency.processes import started

BOUNDS = {kind: Bounds(4, 8 * (ENTRY_OVERHEAD_BYTES + 10)) for kind in EntryKind}
TARGETS = (b"ta", b"tb", b"dx")
DEPENDS = {name: (TARGETS[number % 2], b"dx") for number, name in enumerate((b"1", b"2", b"3", b"4", b"5", b"6"))}
FAR = 1 << 60


def _key(name: bytes) -> bytes:
    return key_of(EntryKind.TABLE, b"", name)


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[TtlCache]:
    made = TtlCache.create(tmp_path / "ttl", BOUNDS, started)
    yield made
    made.close()


def _load(cache: TtlCache, name: bytes, body: bytes = b"x", now_ns: int = 10) -> Load:
    load = cache.begin([_key(name)], now_ns, FAR)
    cache.publish(load, [NewEntry(EntryKind.TABLE, _key(name), DEPENDS[name], body)])
    return load


def _body(cache: TtlCache, name: bytes) -> bytes | None:
    with cache.snapshot() as snapshot:
        found = snapshot.since(_key(name), snapshot.invalidated(DEPENDS[name]))
    return None if found is None else found.body


def test_load_before_invalidation_is_never_seen(cache: TtlCache) -> None:
    late = cache.begin([_key(b"1")], 10, FAR)
    cache.invalidate([b"ta"])
    cache.publish(late, [NewEntry(EntryKind.TABLE, _key(b"1"), DEPENDS[b"1"], b"old")])
    assert _body(cache, b"1") is None
    _load(cache, b"1", b"new", 30)
    assert _body(cache, b"1") == b"new"


def test_holds_whose_time_is_over_are_forgotten(cache: TtlCache) -> None:
    """Writes of unknown outcome leave theirs."""
    for number in range(3 * HOLDS):
        cache.hold([b"t%d" % number], 100 if number % 2 else FAR, 10 if number < HOLDS else 200)
    with cache._env.begin() as txn:
        assert txn.stat(cache._dbs[b"holds"])["entries"] <= 1.5 * HOLDS + 1
    for number, put in ((0, 0), (1, 1)):
        load = cache.begin([_key(b"1")], 300, FAR)
        item = NewEntry(EntryKind.TABLE, _key(b"1"), (b"t%d" % number,), b"x")
        assert cache.publish(load, [item]) == put


def test_a_hold_outlasts_the_loads_that_began_in_its_time(cache: TtlCache) -> None:
    """However many writes of unknown outcome there are."""
    for number in range(HOLDS):
        cache.hold([b"t%d" % number], 100, 10)
    load = cache.begin([_key(b"1")], 99, FAR)
    cache.hold([b"u"], 200, 110)
    assert cache.publish(load, [NewEntry(EntryKind.TABLE, _key(b"1"), (b"t0",), b"before the write")]) == 0
    cache.hold([b"u"], 280, 190)  # no request lasts longer than 90
    with cache._env.begin() as txn:
        assert txn.stat(cache._dbs[b"holds"])["entries"] == 2


FILE_EVENTS = frozenset(("open", "os.listdir", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.scandir"))


def _killed_before(number: int, path: Path) -> bool:
    """A process that creates the cache is killed before its `number`th event of the file system. False: it ended."""
    child = os.fork()
    if child == 0:
        count = 0

        def stop(event: str, _: object) -> None:
            nonlocal count
            count += event in FILE_EVENTS
            if count == number:
                os._exit(9)

        sys.addaudithook(stop)
        TtlCache.create(path, BOUNDS, started, now_ns=20, request_timeout_ns=1000)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == 9


def test_what_is_held_survives_a_start_that_is_killed_anywhere(tmp_path: Path) -> None:
    path, number, killed = tmp_path / "ttl", 0, True
    while killed:
        number += 1
        if path.exists():
            shutil.rmtree(path)
        before = TtlCache.create(path, BOUNDS, started, now_ns=10, request_timeout_ns=1000)
        before.hold([b"ta"], 900, 10)
        before.close()
        killed = _killed_before(number, path)
        after = TtlCache.create(path, BOUNDS, started, now_ns=30, request_timeout_ns=1000)
        load = after.begin([_key(b"1")], 40, FAR)
        assert after.publish(load, [NewEntry(EntryKind.TABLE, _key(b"1"), DEPENDS[b"1"], b"x")]) == 0, number
        after.close()
    assert number > 5


@pytest.mark.parametrize("body", [None, b"x" * 10_000])
def test_what_is_gone_or_too_large_leaves_nothing(cache: TtlCache, body: bytes | None) -> None:
    _load(cache, b"1", b"old", 10)
    late = cache.begin([_key(b"1")], 5, FAR)
    item = NewEntry(EntryKind.TABLE, _key(b"1"), DEPENDS[b"1"], body)
    assert cache.publish(late, [item]) == 0
    assert _body(cache, b"1") == b"old", "what began earlier says nothing about it"
    assert cache.publish(cache.begin([_key(b"1")], 20, FAR), [item]) == 0
    assert _body(cache, b"1") is None and cache.sizes()[EntryKind.TABLE].entries == 0


def test_invalidations_below_a_prefix(cache: TtlCache) -> None:
    long = b"qlong\0" + b"x" * 500
    cache.invalidate([b"qa\0b\0" + b"1", b"qa\0b\0" + b"2", b"qa\0bc\0" + b"3", b"p", b"r"])
    cache.invalidate([b"qa\0b\0" + b"2", long + b"1"])
    with cache.snapshot() as snapshot:
        assert [snapshot.is_any_invalidated(one) for one in (b"qa\0b\0", long, b"qz", b"qa\0b\0" + b"3")] == [
            True,
            True,
            False,
            False,
        ]
        assert snapshot.invalidated((b"qa\0b\0" + b"1",)) == snapshot.seq - 1
        assert snapshot.invalidated((long + b"2",)) == snapshot.seq, "cut alike, one fate"


@pytest.mark.parametrize("target", [b"ta", b"dx", ALL])
def test_invalidation_reaches_what_depends_on_it_only(cache: TtlCache, target: bytes) -> None:
    _load(cache, b"1")
    _load(cache, b"2")
    cache.invalidate([target])
    assert _body(cache, b"1") is None
    assert _body(cache, b"2") == (b"x" if target == b"ta" else None)


def test_nothing_is_published_while_a_write_is_in_flight(cache: TtlCache) -> None:
    _load(cache, b"1")
    first = cache.hold([b"ta"], FAR, 10)
    second = cache.hold([b"ta"], FAR, 10)
    assert _body(cache, b"1") is None, "a write about to leave invalidates"
    _load(cache, b"1", b"during", 20)
    cache.end_hold(first, [b"ta"])
    _load(cache, b"1", b"during the other", 30)
    assert _body(cache, b"1") is None
    cache.end_hold(second, [b"ta"])
    _load(cache, b"1", b"after", 40)
    assert _body(cache, b"1") == b"after"


def test_write_of_unknown_outcome_ends_with_its_time(cache: TtlCache) -> None:
    cache.hold([ALL], 100, 10)
    _load(cache, b"1", b"before", 98)
    during = cache.begin([_key(b"1")], 99, FAR)
    assert _body(cache, b"1") is None
    assert cache.publish(during, [NewEntry(EntryKind.TABLE, _key(b"1"), DEPENDS[b"1"], b"of then")]) == 0, (
        "whenever it ends: the write may have been executed after it had read"
    )
    _load(cache, b"1", b"then", 100)
    assert _body(cache, b"1") == b"then"


def test_one_load_of_a_key_at_a_time(cache: TtlCache) -> None:
    first = cache.begin([_key(b"1"), _key(b"2")], 10, 1000)
    second = cache.begin([_key(b"2"), _key(b"3")], 11, 1000)
    assert second.claimed == (_key(b"3"),) and second.theirs == (_key(b"2"),)
    cache.publish(first, [])
    assert cache.begin([_key(b"2")], 13, 1000).claimed == (_key(b"2"),)


def test_nobody_waits_for_a_refresh(cache: TtlCache) -> None:
    """It may have to wait for many others, or for a metastore that hangs."""
    key = _key(b"1")
    refresh = cache.begin([key], 10, 1000, refresh=True)
    assert cache.begin([key], 11, 1000, refresh=True).theirs == (key,)
    load = cache.begin([key], 12, 1000, alone=True)
    assert load.claimed == (key,)
    for late in (cache.begin([key], 13, 1000, refresh=True), cache.begin([key], 13, 1000)):
        assert late.theirs == (key,)
    cache.release(refresh)
    assert cache.begin([key], 14, 1000).theirs == (key,), "the claim is not the refresh's any more"
    cache.release(load)
    assert cache.begin([key], 15, 1000).claimed == (key,)


def test_claims_end_with_their_time_and_with_their_process(tmp_path: Path) -> None:
    alive = {7: 1, os.getpid(): 1}
    cache = TtlCache(tmp_path / "ttl", BOUNDS, alive.get, pid=7)
    try:
        cache.begin([_key(b"1")], 10, 50)
        assert cache.begin([_key(b"1")], 49, 100).theirs
        assert cache.begin([_key(b"1")], 50, 100).claimed
        alive[7] = 2  # another process has its number now
        assert cache.begin([_key(b"1")], 51, 100).claimed
    finally:
        cache.close()


def test_whether_a_process_lives_is_asked_once_for_many_keys(tmp_path: Path) -> None:
    """Each reader that waits asks again after each commit."""
    asked: list[int] = []

    def alive(pid: int) -> int:
        asked.append(pid)
        return 1

    cache = TtlCache(tmp_path / "ttl", BOUNDS, alive, pid=7)
    try:
        keys = [b"%016d" % number for number in range(1000)]
        cache.begin(keys, 10, FAR)
        asked.clear()
        assert len(cache.begin(keys, 11, FAR).theirs) == 1000
        assert asked == [7]
    finally:
        cache.close()


def test_older_load_does_not_replace_a_newer_one(cache: TtlCache) -> None:
    older = cache.begin([_key(b"1")], 10, FAR)
    _load(cache, b"1", b"newer", 20)
    cache.publish(older, [NewEntry(EntryKind.TABLE, _key(b"1"), DEPENDS[b"1"], b"older")])
    assert _body(cache, b"1") == b"newer"


def test_least_recently_used_go_first(cache: TtlCache) -> None:
    for name in (b"1", b"2", b"3", b"4"):
        _load(cache, name)
    cache.touch([_key(b"1"), b"of nothing"])
    _load(cache, b"5")
    assert [_body(cache, name) is not None for name in (b"1", b"2", b"5")] == [True, False, True]
    assert cache.sizes()[EntryKind.TABLE] == (4, 4 * (1 + ENTRY_OVERHEAD_BYTES))
    assert cache.take_evicted() == {EntryKind.TABLE: 1}


def test_bytes_are_bounded_and_too_large_entries_left_out(cache: TtlCache) -> None:
    _load(cache, b"1", b"x" * BOUNDS[EntryKind.TABLE].bytes)
    assert _body(cache, b"1") is None
    _load(cache, b"2", b"x" * (BOUNDS[EntryKind.TABLE].bytes // 2))
    _load(cache, b"3", b"x" * (BOUNDS[EntryKind.TABLE].bytes // 2 - ENTRY_OVERHEAD_BYTES))
    assert _body(cache, b"2") is None and _body(cache, b"3") is not None


def test_start_makes_it_anew(tmp_path: Path) -> None:
    first = TtlCache.create(tmp_path / "ttl", BOUNDS, started)
    _load(first, b"1")
    first.close()
    second = TtlCache.create(tmp_path / "ttl", BOUNDS, started)
    assert _body(second, b"1") is None
    second.close()


def kept_after_restart(path: Path, target: bytes, began_ns: int) -> bool:
    """The proxy has started again at 1,000, when its metastores work for 100 at most."""
    cache = TtlCache.create(path, BOUNDS, started, now_ns=1000, request_timeout_ns=100)
    load = cache.begin([_key(b"1")], began_ns, FAR)
    put = cache.publish(load, [NewEntry(EntryKind.TABLE, _key(b"1"), (target,), b"x")])
    cache.close()
    return put == 1


@pytest.mark.parametrize(
    ("until_ns", "began_ns", "kept"), [(1050, 1049, False), (1050, 1050, True), (FAR, 1099, False), (FAR, 1100, True)]
)
def test_writes_that_were_left_in_flight_are_held_after_a_restart(
    tmp_path: Path, until_ns: int, began_ns: int, kept: bool
) -> None:
    """A metastore may execute them later than what is loaded first."""
    for target, expected in ((b"ta", kept), (b"tb", True)):
        cache = TtlCache.create(tmp_path / "ttl", BOUNDS, started, now_ns=1000, request_timeout_ns=100)
        cache.hold([b"ta"], 10, 5)
        cache.hold([b"ta"], until_ns, 5)
        cache.end_hold(cache.hold([b"tb"], FAR, 5), [b"tb"])
        cache.close()
        assert kept_after_restart(tmp_path / "ttl", target, began_ns) is expected


def test_an_orderly_end_leaves_only_what_is_held(tmp_path: Path) -> None:
    """So a restart of the machine after it holds nothing."""
    for left in ((b"ta",), ()):
        path = tmp_path / f"ttl {len(left)}"
        cache = TtlCache.create(path, BOUNDS, started)
        cache.end_hold(cache.hold([b"tb"], FAR, 5), [b"tb"])
        if left:
            cache.hold(left, FAR, 5)
        cache.end()
        assert path.exists() is bool(left)


@pytest.mark.parametrize("loss", ["boot", "data.mdb"])
def test_what_was_left_is_unknown_after_a_restart_of_the_machine(tmp_path: Path, loss: str) -> None:
    TtlCache.create(tmp_path / "ttl", BOUNDS, started).close()
    (tmp_path / "ttl" / loss).write_text("of another time")
    assert not kept_after_restart(tmp_path / "ttl", b"ta", 1099)
    (tmp_path / "ttl" / loss).write_text("of another time")
    assert kept_after_restart(tmp_path / "ttl", b"ta", 1100)


@dataclass
class _Entry:
    seq: int
    loaded_ns: int
    depends: tuple[bytes, ...]
    body: bytes


@dataclass
class _Model:
    """What a loading cache is, with dictionaries."""

    seq: int = 0
    entries: OrderedDict[bytes, _Entry] = field(default_factory=OrderedDict)
    invalid: dict[bytes, int] = field(default_factory=dict)
    holds: dict[tuple[bytes, ...], tuple[int, tuple[bytes, ...]]] = field(default_factory=dict)

    def get(self, name: bytes) -> bytes | None:
        entry = self.entries.get(name)
        if entry is None or any(self.invalid.get(target, -1) > entry.seq for target in (ALL, *entry.depends)):
            return None
        return entry.body

    def invalidate(self, targets: tuple[bytes, ...]) -> None:
        self.seq += 1
        for target in targets:
            self.invalid[target] = self.seq

    def publish(self, seq: int, began_ns: int, name: bytes, body: bytes) -> None:
        depends = DEPENDS[name]
        held = {target for until_ns, targets in self.holds.values() if until_ns > began_ns for target in targets}
        if held & {ALL, *depends} or any(self.invalid.get(target, -1) > seq for target in (ALL, *depends)):
            return
        known = self.entries.get(name)
        if known is not None and known.loaded_ns > began_ns:
            return
        self.entries.pop(name, None)
        self.entries[name] = _Entry(seq, began_ns, depends, body)
        bound = BOUNDS[EntryKind.TABLE]
        while len(self.entries) > bound.entries or self.bytes > bound.bytes:
            self.entries.popitem(last=False)

    @property
    def bytes(self) -> int:
        return sum(len(entry.body) + ENTRY_OVERHEAD_BYTES for entry in self.entries.values())


_names = st.sampled_from(sorted(DEPENDS))
_targets = st.lists(st.sampled_from((*TARGETS, ALL)), min_size=1, max_size=2, unique=True).map(tuple)


class LoadingCacheMachine(RuleBasedStateMachine):
    """Loads begin and end in any order among invalidations, writes and reads."""

    loads = Bundle("loads")
    holds = Bundle("holds")

    @initialize()
    def start(self) -> None:
        self.directory = tempfile.TemporaryDirectory()
        self.cache = TtlCache.create(Path(self.directory.name) / "ttl", BOUNDS, started)
        self.model = _Model()
        self.now_ns = 0

    @rule(target=loads, name=_names)
    def begin(self, name: bytes) -> tuple[bytes, Load, int]:
        self.now_ns += 1
        return name, self.cache.begin([_key(name)], self.now_ns, self.now_ns + 1), self.model.seq

    @rule(load=consumes(loads), body=st.binary(max_size=400))
    def publish(self, load: tuple[bytes, Load, int], body: bytes) -> None:
        self.now_ns += 1
        name, begun, seq = load
        self.cache.publish(begun, [NewEntry(EntryKind.TABLE, _key(name), DEPENDS[name], body)])
        self.model.publish(seq, begun.began_ns, name, body)

    @rule(which=_targets)
    def invalidate(self, which: tuple[bytes, ...]) -> None:
        self.cache.invalidate(which)
        self.model.invalidate(which)

    @rule(target=holds, which=_targets, lasting=st.integers(0, 8))
    def hold(self, which: tuple[bytes, ...], lasting: int) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
        holds = self.cache.hold(which, self.now_ns + lasting, self.now_ns)
        self.model.invalidate(which)
        self.model.holds[holds] = (self.now_ns + lasting, which)
        return holds, which

    @rule(held=consumes(holds))
    def end_hold(self, held: tuple[tuple[bytes, ...], tuple[bytes, ...]]) -> None:
        self.cache.end_hold(*held)
        del self.model.holds[held[0]]
        self.model.invalidate(held[1])

    @rule(name=_names)
    def touch(self, name: bytes) -> None:
        self.cache.touch([_key(name)])
        if name in self.model.entries:
            self.model.entries.move_to_end(name)

    @invariant()
    def same(self) -> None:
        if hasattr(self, "cache"):
            for name in DEPENDS:
                assert _body(self.cache, name) == self.model.get(name)
            sizes = self.cache.sizes()[EntryKind.TABLE]
            assert (sizes.entries, sizes.bytes) == (len(self.model.entries), self.model.bytes)

    def teardown(self) -> None:
        if hasattr(self, "cache"):
            self.cache.close()
            self.directory.cleanup()


LoadingCacheMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
test_model = pytest.mark.filterwarnings("ignore::ResourceWarning")(LoadingCacheMachine.TestCase)
