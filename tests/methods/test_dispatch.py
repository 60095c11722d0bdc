"""The dispatcher over a real cache, a real follower and a real metastore: who is answered from where, and when."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hms_cache_proxy.cache.state import Slot
from hms_cache_proxy.config import paths
from hms_cache_proxy.methods.decision import ClientCall, Forward
from hms_cache_proxy.wire.message import Header, MessageType, parse_header
from tests.follower.harness import Followed
from tests.methods.local import Asked, Local
from tests.methods.oracle import Oracle, request
from tests.methods.world import World, struct
from tests.testbed import metric_files
from tests.testbed.processes import wait_until

pytestmark = pytest.mark.real

PATIENCE_S = 60.0


@pytest.fixture
def table(world42: World, followed: Followed) -> Iterator[bytes]:
    """A table of the test's own, in the cache."""
    name = b"own_%d" % time.monotonic_ns()
    with Oracle(world42.address) as hms:
        world42.table(hms, name)
        followed.confirmed()
        yield name
        hms.ask("drop_table", dbname=world42.database, name=name, deleteData=True)


def get_table(local: Local, world: World, name: bytes) -> Asked:
    return local.ask("get_table_req", req=world.request("GetTableRequest", dbName=None, tblName=name))


def parameter(asked: Asked, key: bytes = b"k") -> bytes | None:
    value: bytes | None = asked.reply.value.success.table.parameters.get(key)
    return value


def altered(world: World, name: bytes, value: bytes) -> dict[str, Any]:
    """Arguments of an alter_table that sets a parameter."""
    with Oracle(world.address) as hms:
        found = hms.do("get_table_req", req=world.request("GetTableRequest", dbName=None, tblName=name)).table
    found.parameters[b"k"] = value
    return {"dbname": world.database, "tbl_name": name, "new_tbl": found}


def fences(local: Local, state: str) -> float:
    """How many the follower tells of."""
    return metric_files.value(paths.metrics(local.followed.config), "hms_proxy_fences", state=state)


def oldest_fence_s(local: Local) -> float:
    return metric_files.value(paths.metrics(local.followed.config), "hms_proxy_oldest_fence_seconds")


def until(question: Callable[[], Asked], wanted: Callable[[Asked], bool]) -> Asked:
    """Ask, with growing pauses, until it is so: each miss is a floor, which the follower's next step lifts."""
    deadline_s = time.monotonic() + PATIENCE_S
    pause_s = 0.002
    while True:
        asked = question()
        if wanted(asked):
            return asked
        assert time.monotonic() < deadline_s, asked
        time.sleep(pause_s)
        pause_s = min(1.5 * pause_s, 1.0)


def test_the_second_time_is_hot(local: Local, world42: World, table: bytes) -> None:
    first = get_table(local, world42, table)
    second = get_table(local, world42, table)
    assert (first.by, second.by) == ("hit", "hot") and first.reply == second.reply


def test_own_writes_are_read_at_once(local: Local, world42: World, table: bytes) -> None:
    for number in range(10):
        assert (
            local.ask("alter_table_with_environment_context", **altered(world42, table, b"%d" % number)).by == "write"
        )
        for connection in (local, local.another()):
            asked = get_table(connection, world42, table)
            assert parameter(asked) == b"%d" % number
    until(lambda: get_table(local, world42, table), lambda asked: asked.by == "hot")
    assert parameter(get_table(local, world42, table)) == b"9"


def test_a_fenced_table_is_asked_for_and_others_are_not(local: Local, world42: World, table: bytes) -> None:
    message = request("alter_table", altered(world42, table, b"x"))
    header = parse_header(message)
    assert isinstance(header, Header)
    write = local.dispatcher.decide(ClientCall.of(local.session, header, message, time.monotonic_ns()))
    assert isinstance(write, Forward) and write.outcome == "write"
    write.pending.sending()
    assert get_table(local.another(), world42, table).reason == "fence"
    assert get_table(local.another(), world42, b"plain").by in ("hit", "hot")
    assert wait_until(lambda: fences(local, "infinite") == 1 and oldest_fence_s(local) > 0)
    write.pending.failed(sent=True)
    assert get_table(local.another(), world42, table).reason == "fence", "it may still happen"
    assert wait_until(lambda: (fences(local, "infinite"), fences(local, "unknown")) == (0, 1))
    local.followed.fences.expire(time.monotonic_ns() + 10**15)
    until(lambda: get_table(local.another(), world42, table), lambda asked: asked.by == "hot")
    assert wait_until(lambda: fences(local, "unknown") == oldest_fence_s(local) == 0)


def test_a_write_that_never_left_fences_nothing(local: Local, world42: World, table: bytes) -> None:
    message = request("alter_table", altered(world42, table, b"x"))
    header = parse_header(message)
    assert isinstance(header, Header)
    write = local.dispatcher.decide(ClientCall.of(local.session, header, message, time.monotonic_ns()))
    assert isinstance(write, Forward)
    write.pending.sending()
    write.pending.failed(sent=False)
    assert get_table(local.another(), world42, table).by in ("hit", "hot")


def test_a_relayed_read_is_a_floor_for_its_connection(local: Local, world42: World, table: bytes) -> None:
    with Oracle(world42.address) as hms:
        hms.do("alter_table", **altered(world42, table, b"behind"))
    with_column_statistics = world42.request(
        "GetTableRequest", dbName=None, tblName=table, getColumnStats=True, engine=b"hive"
    )
    assert local.ask("get_table_req", req=with_column_statistics).by in ("miss", "hot")
    seen = get_table(local, world42, table)
    assert parameter(seen) == b"behind"


def test_changes_behind_the_proxy_arrive(local: Local, world42: World, table: bytes) -> None:
    get_table(local, world42, table)
    with Oracle(world42.address) as hms:
        hms.do("alter_table", **altered(world42, table, b"seen"))
    until(lambda: get_table(local, world42, table), lambda asked: parameter(asked) == b"seen" and asked.by == "hot")


def test_names_of_a_dropped_table(local: Local, world42: World, table: bytes) -> None:
    assert get_table(local, world42, table).by == "hit"
    local.ask("drop_table", dbname=world42.database, name=table, deleteData=True)
    assert get_table(local, world42, table).reply.value.o2 is not None
    gone = until(lambda: get_table(local, world42, table), lambda asked: asked.by == "hot")
    assert b"table not found" in gone.reply.value.o2.message


def lock_request(world: World, table: bytes) -> dict[str, Any]:
    component = struct(
        "LockComponent", type=3, level=2, dbname=world.database, tablename=table, operationType=6, isTransactional=False
    )
    return {"rqst": struct("LockRequest", component=[component], user=b"u", hostname=b"h")}


def test_a_granted_lock_orders_reads(local: Local, world42: World, table: bytes) -> None:
    """Iceberg: lock, read, compare, write. What was committed before the lock was granted must be read, by anybody."""
    get_table(local, world42, table)
    with Oracle(world42.address) as hms:
        for number in range(5):
            hms.do("alter_table", **altered(world42, table, b"%d" % number))
            granted = local.ask("lock", **lock_request(world42, table)).reply.value.success
            assert granted.state == 1
            assert parameter(get_table(local.another(), world42, table)) == b"%d" % number
            local.ask("unlock", rqst=struct("UnlockRequest", lockid=granted.lockid))


def test_a_lock_that_is_waited_for_orders_reads_too(local: Local, world42: World, table: bytes) -> None:
    with Oracle(world42.address) as hms:
        held = hms.do("lock", **lock_request(world42, table))
        waiting = local.ask("lock", **lock_request(world42, table)).reply.value.success
        assert waiting.state == 2
        hms.do("alter_table", **altered(world42, table, b"meanwhile"))
        hms.do("unlock", rqst=struct("UnlockRequest", lockid=held.lockid))
        granted = local.ask("check_lock", rqst=struct("CheckLockRequest", lockid=waiting.lockid)).reply.value.success
        assert granted.state == 1
        assert parameter(get_table(local.another(), world42, table)) == b"meanwhile"
        local.ask("unlock", rqst=struct("UnlockRequest", lockid=waiting.lockid))


def test_after_event_ids_everybody_reads_what_they_say(local: Local, world42: World, table: bytes) -> None:
    get_table(local, world42, table)
    with Oracle(world42.address) as hms:
        hms.do("alter_table", **altered(world42, table, b"logged"))
    told = local.ask("get_current_notificationEventId").reply.value.success.eventId
    assert parameter(get_table(local.another(), world42, table)) == b"logged"
    events = local.ask(
        "get_next_notification", rqst=struct("NotificationEventRequest", lastEvent=told - 1, maxEvents=-1)
    )
    assert max(event.eventId for event in events.reply.value.success.events) >= told


def test_an_unknown_method_changes_nothing(local: Local, world42: World, table: bytes) -> None:
    generation = local.followed.page[Slot.GENERATION]
    message = request("get_table_req", {"req": None}).replace(b"get_table_req", b"no_such_thing")
    header = parse_header(message)
    assert isinstance(header, Header)
    forward = local.dispatcher.decide(ClientCall.of(local.session, header, message, time.monotonic_ns()))
    assert isinstance(forward, Forward) and forward.label == "other"
    forward.pending.sending()
    assert get_table(local.another(), world42, table).reason == "fence"
    reply = local.oracle.call(message)
    answer = parse_header(reply)
    assert isinstance(answer, Header) and answer.type is MessageType.EXCEPTION
    forward.pending.reply_began(local.session, time.monotonic_ns())
    forward.pending.reply_done(local.session, reply, time.monotonic_ns())
    assert get_table(local.another(), world42, table).by in ("hit", "hot")
    assert local.followed.page[Slot.GENERATION] == generation


def test_an_unknown_method_that_an_operator_calls_a_read_fences_nothing(
    local: Local, world42: World, table: bytes
) -> None:
    dispatcher = local.with_settings(read_methods=("no_such_thing",)).dispatcher
    message = request("get_table_req", {"req": None}).replace(b"get_table_req", b"no_such_thing")
    header = parse_header(message)
    assert isinstance(header, Header)
    forward = dispatcher.decide(ClientCall.of(local.session, header, message, time.monotonic_ns()))
    assert isinstance(forward, Forward) and (forward.label, forward.outcome) == ("other", "relay")
    forward.pending.sending()
    assert get_table(local.another(), world42, table).by in ("hit", "hot")


def test_a_name_that_no_service_has_fences_nothing(local: Local, world42: World, table: bytes) -> None:
    message = request("get_table_req", {"req": None}).replace(b"get_table_req", b"get_t\xe6\x97ble_re")
    header = parse_header(message)
    assert isinstance(header, Header)
    forward = local.dispatcher.decide(ClientCall.of(local.session, header, message, time.monotonic_ns()))
    assert isinstance(forward, Forward) and (forward.label, forward.outcome) == ("other", "relay")
    forward.pending.sending()
    forward.pending.failed(sent=True)
    assert get_table(local.another(), world42, table).by in ("hit", "hot")


def shaped(local: Local, world: World, table: bytes) -> Asked:
    """A table for a client that can do some things: only the metastore knows what it shows it."""
    request = world.request("GetTableRequest", dbName=None, tblName=table)
    request.processorCapabilities, request.processorIdentifier = [b"HIVEBUCKET2"], b"some client"
    return local.ask("get_table_req", req=request)


def test_a_reply_is_learned_and_forgotten(local: Local, world42: World, table: bytes) -> None:
    assert shaped(local, world42, table).by == "miss"
    learned = until(lambda: shaped(local, world42, table), lambda asked: asked.by == "hot")
    changed = altered(world42, table, b"x")
    changed["new_tbl"].sd.cols.append(struct("FieldSchema", name=b"other", type=b"int"))
    with Oracle(world42.address) as hms:
        hms.do("alter_table", **changed)
    until(lambda: shaped(local, world42, table), lambda asked: asked.reply != learned.reply)
    again = until(lambda: shaped(local, world42, table), lambda asked: asked.by == "hot")
    assert [column.name for column in again.reply.value.success.table.sd.cols] == [b"id", b"n", b"other"]


def test_what_does_not_exist_is_learned(local: Local, world42: World) -> None:
    absent = until(lambda: shaped(local, world42, b"absent"), lambda asked: asked.by == "hot")
    assert absent.reply.value.o2 is not None


def test_failures_are_not_learned(local: Local, world42: World, followed: Followed) -> None:
    for _ in range(3):
        asked = local.ask(
            "get_partition_column_statistics", db_name=world42.database, tbl_name=b"keyed", col_name=b"id"
        )
        assert asked.by == "miss"
        followed.confirmed()


def test_transactional_tables_are_never_learned(local: Local, world42: World, followed: Followed) -> None:
    for _ in range(3):
        assert shaped(local, world42, b"insert_only").by == "miss"
        followed.confirmed()


def test_lists_without_an_order_are_the_metastores_own(local: Local, world42: World, table: bytes) -> None:
    arguments: dict[str, Any] = {"db_name": world42.database}
    first = local.ask("get_all_tables", **arguments)
    assert (first.by, first.reason) == ("miss", "order")
    hot = until(lambda: local.ask("get_all_tables", **arguments), lambda asked: asked.by == "hot")
    assert hot.reply == first.reply and table in hot.reply.value.success


def test_lists_by_type_follow_their_tables(local: Local, world42: World, followed: Followed, table: bytes) -> None:
    """The database has transactional tables, too; a table that is altered may leave a list, one that is made comes."""
    of_type = lambda kind: local.ask(  # noqa: E731
        "get_tables_by_type", db_name=world42.database, pattern=b"*", tableType=kind
    )
    external, managed = (lambda: of_type(b"EXTERNAL_TABLE")), (lambda: of_type(b"MANAGED_TABLE"))
    for ask, present in ((external, table), (managed, b"full_acid")):
        first = ask()
        assert (first.by, first.reason) == ("hit", ""), "the metastore orders them by name"
        hot = until(ask, lambda asked: asked.by == "hot")
        assert hot.reply == first.reply and present in hot.reply.value.success
    changed = altered(world42, table, b"x")
    changed["new_tbl"].tableType, changed["new_tbl"].parameters = b"MANAGED_TABLE", {b"EXTERNAL": b"FALSE"}
    two = table + b"_two"
    with Oracle(world42.address) as hms:
        hms.do("alter_table", **changed)
        followed.confirmed()
        assert table not in external().reply.value.success and table in managed().reply.value.success
        until(external, lambda asked: asked.by == "hot")
        world42.table(hms, two)
        followed.confirmed()
    assert two in external().reply.value.success
    until(external, lambda asked: asked.by == "hot")
    local.ask("drop_table", dbname=world42.database, name=two, deleteData=True)
    assert two not in external().reply.value.success


def test_one_is_in_order(local: Local, world42: World) -> None:
    arguments = {"db_name": world42.database, "pattern": b"t1"}
    assert local.ask("get_tables", **arguments).by == "hit"
    assert local.ask("get_all_tables", db_name=b"%bempty" % world42.prefix.encode()).by == "hit"


def test_set_meta_conf_relays_for_good(local: Local, world42: World, table: bytes) -> None:
    local.ask("setMetaConf", key=b"metastore.try.direct.sql", value=b"true")
    assert get_table(local, world42, table).reason == "setmetaconf"
    assert get_table(local.another(), world42, table).by in ("hit", "hot")


def test_personal_replies_are_for_one_person(local: Local, world42: World, table: bytes) -> None:
    personal = local.with_settings(authorization="per_user")
    alice, bob = personal.another(), personal.another()
    alice.session.identity, bob.session.identity = b"alice", b"bob"
    first = get_table(alice, world42, table)
    assert (first.by, first.reason) == ("miss", "authorization")
    until(lambda: get_table(alice, world42, table), lambda asked: asked.by == "hot")
    assert get_table(bob, world42, table).by == "miss"
    relaying = local.with_settings(authorization="relay")
    assert get_table(relaying, world42, table).reason == "authorization"
    until(lambda: get_table(local, world42, table), lambda asked: asked.by == "hit")


def privileges(world: World, table: bytes) -> Any:
    """SELECT on a table, for alice."""
    terms = {"createTime": 0, "grantor": b"o", "grantorType": 1, "grantOption": False}
    info = struct("PrivilegeGrantInfo", privilege=b"SELECT", **terms)
    on = struct("HiveObjectRef", objectType=3, dbName=world.database, objectName=table, partValues=[])
    granted = struct("HiveObjectPrivilege", hiveObject=on, principalName=b"alice", principalType=1, grantInfo=info)
    return struct("PrivilegeBag", privileges=[granted])


def test_what_a_user_was_shown_is_forgotten_with_a_revoke(local: Local, world42: World, table: bytes) -> None:
    """Whichever right was taken, and whichever worker has answered: what was learned before is asked for again."""
    local = local.with_settings(authorization="per_user")
    bag = privileges(world42, table)
    assert local.ask("grant_privileges", privileges=bag).reply.value.success
    alice, admin = local.another(), local.another()
    alice.session.identity, admin.session.identity = b"alice", b"admin"
    role = b"role_%d" % time.monotonic_ns()
    revokes: list[tuple[str, dict[str, Any]]] = [
        ("revoke_privileges", {"privileges": bag}),
        ("grant_revoke_privileges", {"request": struct("GrantRevokePrivilegeRequest", requestType=2, privileges=bag)}),
        ("create_role", {"role": struct("Role", roleName=role, ownerName=b"o")}),
        ("drop_role", {"role_name": role}),
    ]
    for method, arguments in revokes:
        until(lambda: get_table(alice, world42, table), lambda asked: asked.by == "hot")
        assert admin.ask(method, **arguments).by == "write"
        assert get_table(alice, world42, table).by == "miss"
    until(lambda: get_table(alice, world42, table), lambda asked: asked.by == "hot")


def test_a_large_write_fences_what_its_beginning_names(local: Local, world42: World, table: bytes) -> None:
    rows = [struct("Partition", dbName=world42.database, tableName=table, values=[b"%d" % n]) for n in range(100)]
    message = request("add_partitions", {"new_parts": rows})[:900]
    header = parse_header(message)
    assert isinstance(header, Header)
    write = local.dispatcher.decide(ClientCall.of(local.session, header, message, time.monotonic_ns(), complete=False))
    assert isinstance(write, Forward)
    write.pending.sending()
    assert get_table(local.another(), world42, table).reason == "fence"
    assert get_table(local.another(), world42, b"plain").by in ("hit", "hot")
    write.pending.failed(sent=False)
