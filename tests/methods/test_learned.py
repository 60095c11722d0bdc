"""`authorization = "learned"`: what the metastore gave a user, the cache gives, and for how long. The test plays the
metastore and the follower."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hms_cache_proxy.cache import targets
from hms_cache_proxy.cache.changes import Changes, PartitionChange
from hms_cache_proxy.cache.replies import stand
from hms_cache_proxy.cache.state import Slot
from hms_cache_proxy.methods import shapes
from hms_cache_proxy.methods.decision import ClientCall, ClientSession, Decision, Forward, Serve
from hms_cache_proxy.methods.table import METHODS, MethodKind
from hms_cache_proxy.methods.verdicts import BY_PART, BY_TABLE, Verdicts, question, same
from hms_cache_proxy.metrics import WorkerMetrics
from hms_cache_proxy.upstream.answer_differences import AnswerDifferences
from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.message import Header, MessageType, message_header, parse_header
from tests.cache.records import DATABASE, TABLE, TABLE_ID, days, table
from tests.methods.structs import struct
from tests.methods.warm import TARGET, Bench, opened, request
from tests.testbed.raw import encode_call

ALICE, BOB = b"alice", b"bob"
TTL_S = 0.4
PARTITIONS = encode_call("get_partition_names", DATABASE[1].decode(), TABLE[2].decode(), -1)
TABLES = encode_call("get_all_tables", DATABASE[1].decode())
DATABASES = encode_call("get_all_databases")
FUNCTIONS = encode_call("get_functions", DATABASE[1].decode(), "*")
PARTITIONED = Changes(
    cursor=11, partitions=[PartitionChange(TABLE_ID, [one.record() for one in days(3)], replace_all=True)]
)
HIDDEN = spec.encode(spec.result("get_table")(o2=struct("NoSuchObjectException", message=b"no")))
REFUSED = spec.encode(spec.result("get_table")(o1=struct("MetaException", message=b"no")))


class Proxy:
    """A bench, its users, and a metastore that gives what the test says."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.users = {name: ClientSession(identity=name) for name in (ALICE, BOB)}

    def decide(self, user: bytes, message: bytes) -> Decision:
        header = parse_header(message)
        assert isinstance(header, Header)
        return self.bench.dispatcher.decide(ClientCall.of(self.users[user], header, message, time.monotonic_ns()))

    def hit(self, user: bytes = ALICE, message: bytes | None = None) -> bytes | None:
        """The reply from the cache, in either way; None if the metastore is asked."""
        message = message or request()
        hot = self.bench.dispatcher.hot(self.users[user], message, time.monotonic_ns())
        if hot is not None:
            return hot
        decision = self.decide(user, message)
        if isinstance(decision, Forward):
            decision.pending.failed(False)
            return None
        assert isinstance(decision, Serve)
        return decision.chunks if isinstance(decision.chunks, bytes) else b"".join(decision.chunks)

    def asked(self, user: bytes = ALICE, message: bytes | None = None) -> Forward:
        """The metastore must be asked."""
        decision = self.decide(user, message or request())
        assert isinstance(decision, Forward), decision
        decision.pending.sending()
        return decision

    def answered(self, forward: Forward, body: bytes, user: bytes = ALICE, message: bytes | None = None) -> None:
        """The metastore's answer arrives, and the follower begins its next step later."""
        header = parse_header(message or request())
        assert isinstance(header, Header)
        session, reply = self.users[user], message_header(header.name, MessageType.REPLY, header.seqid) + body
        forward.pending.reply_began(session, time.monotonic_ns())
        forward.pending.reply_done(session, reply, time.monotonic_ns())
        self.bench.step()

    def read(self, body: bytes, user: bytes = ALICE, message: bytes | None = None) -> str:
        """One read that the metastore is asked, and why."""
        forward = self.asked(user, message)
        self.answered(forward, body, user, message)
        return forward.reason

    def told(self, result: str) -> float:
        sample = {"result": result}
        return self.bench.metrics.registry.get_sample_value("hms_proxy_authorization_checks_total", sample) or 0


@pytest.fixture(scope="session")
def own(tmp_path_factory: pytest.TempPathFactory) -> dict[bytes, bytes]:
    """The result structs that the cache gives, by request."""
    with opened(tmp_path_factory.mktemp("own"), list_order="name") as bench:
        bench.step(PARTITIONED)
        replies = {one: bench.decide(one) for one in (request(), PARTITIONS, TABLES, DATABASES)}
    return {one: reply[8 + reply[7] + 4 :] for one, reply in replies.items()}


@pytest.fixture
def equal(own: dict[bytes, bytes]) -> bytes:
    """The cache's answer about the table."""
    return own[request()]


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Proxy]:
    settings = {"authorization": "learned", "authorization_ttl_s": 3600, "list_order": "name"}
    with opened(tmp_path, **settings) as bench:
        bench.step(PARTITIONED)
        yield Proxy(bench)


@pytest.fixture
def seen(proxy: Proxy, equal: bytes) -> Proxy:
    """Alice was shown the table."""
    assert proxy.read(equal) == "verdict"
    assert proxy.hit() is not None
    return proxy


def test_an_equal_answer_makes_hits(proxy: Proxy, equal: bytes) -> None:
    assert proxy.read(equal) == "verdict" and proxy.told("equal") == 1
    long, hot = proxy.hit(), proxy.bench.dispatcher.hot(proxy.users[ALICE], request(), time.monotonic_ns())
    assert long == hot and hot is not None and hot.endswith(equal)


def test_the_order_in_maps_does_not_count() -> None:
    one, other, less = (
        spec.encode(spec.result("get_database")(success=struct("Database", name=b"d", parameters=parameters)))
        for parameters in ({b"a": b"1", b"b": b"2"}, {b"b": b"2", b"a": b"1"}, {b"b": b"1", b"a": b"2"})
    )
    assert one != other and same("get_database", one, other)
    assert not same("get_database", one, less) and not same("get_database", one, one[:-1] + b"\x7f")


@pytest.mark.parametrize(("body", "result"), [(HIDDEN, "different"), (REFUSED, "refused")])
def test_another_answer_makes_none(proxy: Proxy, body: bytes, result: str) -> None:
    for _ in range(3):
        assert proxy.read(body) == "verdict"
    assert proxy.told(result) == 3
    assert proxy.told("equal") == 0


def test_an_answer_that_is_too_long_to_be_held_makes_none(proxy: Proxy) -> None:
    forward = proxy.asked()
    forward.pending.reply_done(proxy.users[ALICE], None, time.monotonic_ns())
    assert proxy.told("too_large") == 1
    assert proxy.hit() is None


def test_a_verdict_is_one_users(seen: Proxy) -> None:
    assert seen.hit(BOB) is None
    seen.users[ALICE].identity = BOB
    assert seen.hit() is None
    seen.users[ALICE].identity = None
    assert seen.hit() is None


def test_a_verdict_is_about_one_method(seen: Proxy) -> None:
    asked = struct("GetTableRequest", dbName=DATABASE[1], tblName=TABLE[2])
    message = message_header(b"get_table_req", MessageType.CALL, 1) + spec.encode(spec.args("get_table_req")(req=asked))
    assert seen.hit(message=message) is None


def test_a_verdict_is_about_the_table_however_it_is_spelled(seen: Proxy) -> None:
    assert seen.hit(message=encode_call("get_table", DATABASE[1].decode().upper(), TABLE[2].decode())) is not None


def test_other_users_do_not_end_it(seen: Proxy) -> None:
    assert seen.read(REFUSED, BOB) == "verdict"
    assert seen.hit() is not None


def test_another_answer_to_the_same_user_ends_it(seen: Proxy, equal: bytes) -> None:
    forward = seen.asked(BOB)
    seen.answered(forward, equal, BOB)
    later = seen.asked(BOB, encode_call("get_table_objects_by_name", DATABASE[1].decode(), [TABLE[2].decode()]))
    assert seen.hit(BOB) is not None
    later.pending.failed(False)
    two = [Proxy.asked(other) for other in (_fresh(seen), _fresh(seen))]  # both left before either was answered
    seen.answered(two[0], equal, b"carol")
    assert seen.hit(b"carol") is not None
    seen.answered(two[1], REFUSED, b"carol")
    assert seen.hit(b"carol") is None


def _fresh(proxy: Proxy) -> Proxy:
    """The same proxy, asked by carol on a connection of its own, whose reads share no answers."""
    other = Proxy(proxy.bench)
    proxy.bench.dispatcher._misses.shares = False
    other.users = proxy.users
    proxy.users[b"carol"] = ClientSession(identity=b"carol")
    other.users = {ALICE: proxy.users[b"carol"]}
    return other


def test_a_change_of_the_table_ends_it(seen: Proxy, equal: bytes) -> None:
    seen.bench.step(Changes(cursor=12, tables={TABLE: table()}, touched={TARGET}))
    assert seen.read(equal) == "verdict"
    assert seen.hit() is not None


def test_a_change_of_the_database_ends_it(seen: Proxy) -> None:
    seen.bench.step(Changes(cursor=12, touched={targets.database(*DATABASE)}))
    assert seen.hit() is None


def test_a_change_of_another_table_does_not(seen: Proxy) -> None:
    seen.bench.step(Changes(cursor=12, touched={targets.table(*DATABASE, b"other")}))
    assert seen.hit() is not None


def granted(*names: bytes) -> list[bytes]:
    """What a change of privileges on these touches."""
    return [targets.ROLES, targets.rights(*names) if names else targets.WIDE_RIGHTS]


@pytest.mark.parametrize("target", [targets.WIDE_RIGHTS, targets.rights(*TABLE), TARGET, targets.ALL])
def test_a_write_through_the_proxy_ends_it(seen: Proxy, target: bytes) -> None:
    """A role, a privilege, a change of the table, an unknown method: while it is in flight, and until its reload."""
    fence = seen.bench.fences.begin([target], os.getpid())
    assert seen.hit() is None
    seen.bench.fences.finish(fence)
    assert seen.hit() is None
    seen.bench.step(Changes(cursor=12, touched={target}))
    assert seen.hit() is None


ELSEWHERE = [(*DATABASE, b"other"), (DATABASE[0], b"elsewhere")]


@pytest.mark.parametrize("names", ELSEWHERE)
def test_privileges_on_something_else_end_nothing_by_hives_rules(seen: Proxy, names: tuple[bytes, ...]) -> None:
    fence = seen.bench.fences.begin(granted(*names), os.getpid())
    assert seen.hit() is not None
    seen.bench.fences.finish(fence)
    assert seen.hit() is not None
    seen.bench.step(Changes(cursor=12, touched=set(granted(*names))))
    assert seen.hit() is not None and seen.told("equal") == 1


@pytest.mark.parametrize("names", [*ELSEWHERE, TABLE, DATABASE, ()])
def test_privileges_on_anything_end_it_by_unknown_rules(proxy: Proxy, equal: bytes, names: tuple[bytes, ...]) -> None:
    proxy.bench.page[Slot.DIFFERS] = AnswerDifferences.RIGHTS
    assert proxy.read(equal) == "verdict" and proxy.hit() is not None
    fence = proxy.bench.fences.begin(granted(*names), os.getpid())
    assert proxy.hit() is None
    proxy.bench.fences.finish(fence)
    proxy.bench.step(Changes(cursor=12, touched=set(granted(*names))))
    assert proxy.hit() is None


@pytest.mark.parametrize("names", [TABLE, DATABASE, ()])
def test_privileges_on_it_and_on_what_it_is_in_end_it(seen: Proxy, names: tuple[bytes, ...]) -> None:
    seen.bench.step(Changes(cursor=12, touched=set(granted(*names))))
    assert seen.hit() is None


def test_replies_that_may_show_privileges_end_with_each_change_of_one(proxy: Proxy) -> None:
    message = encode_call("get_partitions_with_auth", DATABASE[1].decode(), TABLE[2].decode(), -1, "alice", [])
    body = spec.encode(spec.result("get_partitions_with_auth")(success=[]))
    assert proxy.read(body, message=message)
    assert proxy.hit(message=message) is not None
    proxy.bench.step(Changes(cursor=12, touched=set(granted(*DATABASE, b"other"))))
    assert proxy.hit(message=message) is None


def test_a_flush_ends_it(seen: Proxy) -> None:
    seen.bench.fences.ticket([TARGET])
    seen.bench.fences.fence_now([TARGET])
    seen.bench.step(Changes(cursor=12, touched={TARGET}))
    assert seen.hit() is None


@pytest.mark.parametrize("names", [TABLE, DATABASE, ()])
def test_a_check_that_left_before_a_revoke_proves_nothing_after_it(
    proxy: Proxy, equal: bytes, names: tuple[bytes, ...]
) -> None:
    forward = proxy.asked()
    fence = proxy.bench.fences.begin(granted(*names), os.getpid())
    proxy.bench.fences.finish(fence)
    proxy.bench.step(Changes(cursor=12, touched=set(granted(*names))))
    proxy.answered(forward, equal)
    assert proxy.hit() is None


def test_new_rules_end_it(seen: Proxy) -> None:
    seen.bench.dispatcher.forget()
    assert seen.hit() is None


def shown_within_its_time(proxy: Proxy, body: bytes, message: bytes | None = None) -> bytes:
    """What the cache gives after the metastore has given it. A busy machine may need longer than the verdict lasts."""
    for _ in range(20):
        proxy.read(body, message=message)
        if (hit := proxy.hit(message=message)) is not None:
            return hit
    raise AssertionError("a verdict makes no hit")


def test_time_ends_it(tmp_path: Path, equal: bytes) -> None:
    with opened(tmp_path, authorization="learned", authorization_ttl_s=TTL_S) as bench:
        proxy = Proxy(bench)
        shown_within_its_time(proxy, equal)
        time.sleep(TTL_S)
        assert proxy.hit() is None


def test_a_verdict_counts_from_when_its_request_left() -> None:
    verdicts, before = Verdicts(100, WorkerMetrics()), time.monotonic_ns()
    made = [verdicts.made(1, before).until_ns - before for _ in range(200)]
    assert max(made) <= 100e9 and min(made) >= 75e9 and len(set(made)) > 100
    assert not stand(()) and not stand((verdicts.made(1, before), verdicts.made(1, before - 101 * 10**9)))


def test_lists_are_judged_by_request(proxy: Proxy, own: dict[bytes, bytes]) -> None:
    assert proxy.read(own[TABLES], message=TABLES) == "verdict"
    assert proxy.hit(message=TABLES) is not None
    assert proxy.hit(message=encode_call("get_tables", DATABASE[1].decode(), "*")) is None


@pytest.mark.parametrize(
    ("message", "target"), [(TABLES, TARGET), (DATABASES, targets.database(*DATABASE))], ids=["table", "database"]
)
def test_lists_end_with_a_change_of_what_they_list(
    proxy: Proxy, own: dict[bytes, bytes], message: bytes, target: bytes
) -> None:
    """What decides whether a user sees it may look at all of it."""
    proxy.read(own[message], message=message)
    assert proxy.hit(message=message)
    fence = proxy.bench.fences.begin([target], os.getpid())
    assert proxy.hit(message=message) is None
    proxy.bench.fences.finish(fence)
    proxy.bench.step(Changes(cursor=12, touched={target}))
    assert proxy.hit(message=message) is None


@pytest.mark.parametrize("parts", [False, True])
def test_partitions_are_judged_by_table_where_hooks_do_so(proxy: Proxy, own: dict[bytes, bytes], parts: bool) -> None:
    proxy.bench.page[Slot.DIFFERS] = AnswerDifferences.PARTS if parts else 0
    assert proxy.read(own[PARTITIONS], message=PARTITIONS) == "verdict"
    assert proxy.hit(message=PARTITIONS) is not None
    other = encode_call("get_partition_names", DATABASE[1].decode(), TABLE[2].decode(), 1)
    assert (proxy.hit(message=other) is None) is parts


def test_other_replies_are_kept_for_their_user(proxy: Proxy) -> None:
    body = spec.encode(spec.result("get_functions")(success=[b"f"]))
    proxy.bench.step(Changes(cursor=12, marks={targets.FUNCTIONS: b"1"}))
    assert proxy.read(body, message=FUNCTIONS) == "not_cached"
    assert proxy.hit(message=FUNCTIONS) is not None and proxy.told("kept") == 1
    assert proxy.hit(BOB, FUNCTIONS) is None
    proxy.bench.step(Changes(cursor=13, touched={targets.ROLES}))
    other = spec.encode(spec.result("get_functions")(success=[b"g"]))
    assert proxy.read(other, message=FUNCTIONS) == "not_cached"
    kept = proxy.hit(message=FUNCTIONS)
    assert kept is not None and kept.endswith(other)


def test_a_kept_reply_that_has_ended_is_replaced(tmp_path: Path) -> None:
    """Also by one that shows less: nothing has changed that the cache could see."""
    full, less = (spec.encode(spec.result("get_functions")(success=names)) for names in ([b"f"], []))
    with opened(tmp_path, authorization="learned", authorization_ttl_s=TTL_S) as bench:
        proxy = Proxy(bench)
        bench.step(Changes(cursor=12, marks={targets.FUNCTIONS: b"1"}))
        for body in (full, full, less):
            kept = shown_within_its_time(proxy, body, FUNCTIONS)
            assert kept.endswith(body)
            time.sleep(TTL_S)
            assert proxy.hit(message=FUNCTIONS) is None


def test_a_user_who_is_refused_does_not_wait_for_the_follower(proxy: Proxy) -> None:
    forward = proxy.asked()
    proxy.users[ALICE].floors = None
    forward.pending.reply_began(proxy.users[ALICE], time.monotonic_ns())
    header = parse_header(request())
    assert isinstance(header, Header)
    decided = proxy.bench.dispatcher.decide(
        ClientCall.of(proxy.users[ALICE], header, request(), time.monotonic_ns(), patient=True)
    )
    assert not isinstance(decided, Forward) or decided.reason == "verdict"
    assert isinstance(decided, Forward)


def test_memory_is_limited() -> None:
    verdicts = Verdicts(100, WorkerMetrics(), most=3)
    asked = [question("get_table", b"u", b"", [b"t%d" % n], parts=False) for n in range(5)]
    for one in asked:
        verdicts.give(one, 1, time.monotonic_ns())
    assert [bool(verdicts.found(one)) for one in asked] == [False, False, True, True, True]


def test_a_read_of_several_tables_needs_a_verdict_for_each() -> None:
    verdicts, now_ns = Verdicts(100, WorkerMetrics()), time.monotonic_ns()

    def of(user: bytes, *tables: bytes) -> bool:
        asked = question("get_table_objects_by_name", user, b"", tables, parts=True)
        return bool(verdicts.found(asked))

    verdicts.give(question("get_table_objects_by_name", b"u", b"", [b"ta", b"tb"], parts=True), 1, now_ns)
    assert of(b"u", b"ta") and of(b"u", b"tb", b"ta") and not of(b"u", b"ta", b"tc") and not of(b"v", b"ta")


def test_users_are_told_apart_whatever_their_bytes() -> None:
    def keys(user: bytes, method: str) -> tuple[bytes, ...]:
        return question(method, user, b"", [b"t"], parts=False).keys

    assert keys(b"a", "get_table") != keys(b"", "get_table") and keys(b"a", "get_table") != keys(b"a", "get_table_req")


def test_every_read_of_one_table_is_in_a_list() -> None:
    one_table = {
        row.name
        for row in METHODS.values()
        if row.kind is MethodKind.READ and row.reads and all(isinstance(rule, shapes._Table) for rule in row.rules)
    }
    assert one_table - BY_TABLE - BY_PART <= {"get_all_tables", "get_tables", "get_tables_by_type"}
    assert BY_TABLE | BY_PART <= METHODS.keys() and not BY_TABLE & BY_PART
