"""What a granted lock guarantees in TTL mode, and to whom."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from time import monotonic_ns

import pytest

from hms_cache_proxy.methods.decision import ClientSession, Forward, Serve
from hms_cache_proxy.wire import spec
from tests.methods.world import struct
from tests.ttl.bench import Bench, call, opened, reply

GRANTED, WAITING = 1, 2
READ, WRITE, EXCLUSIVE = 1, 2, 3
TABLE = {"dbname": b"d", "tbl_name": b"t"}
PARTITIONS = {"db_name": b"d", "tbl_name": b"t", "names": [b"p=1"]}


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with opened(tmp_path) as made:
        yield made


def lock(bench: Bench, session: ClientSession, *types: int, state: int = GRANTED, table: bytes = b"t") -> None:
    """The session asks for such locks on the table, and the metastore answers."""
    components = [struct("LockComponent", type=one, level=2, dbname=b"d", tablename=table) for one in types]
    asked = struct("LockRequest", component=components, user=b"u", hostname=b"h")
    forward = bench.asked(session, "lock", rqst=asked)
    assert isinstance(forward, Forward)
    forward.pending.sending()
    said = reply("lock", struct("LockResponse", lockid=5, state=state))
    forward.pending.reply_began(session, monotonic_ns())
    forward.pending.reply_done(session, said, monotonic_ns())


def owner_is(bench: Bench, session: ClientSession, owner: bytes) -> Forward:
    """The session asks for the table, and what is not known is asked for; the call that was made."""
    forward = bench.asked(session, "get_table", **TABLE)
    assert isinstance(forward, Forward)
    keys = [struct("FieldSchema", name=b"p", type=b"string")]
    table = struct("Table", dbName=b"d", tableName=b"t", owner=owner, partitionKeys=keys, parameters={})
    forward.pending.reply_done(session, reply("get_table", table), monotonic_ns())
    return forward


def shown(bench: Bench, session: ClientSession) -> bytes | None:
    """The owner of the table, as it is kept; None if it has to be asked for."""
    served = bench.asked(session, "get_table", **TABLE)
    if not isinstance(served, Serve):
        return None
    assert isinstance(served.chunks, bytes)
    header, _ = call("get_table", **TABLE)
    owner: bytes = spec.decode(spec.result("get_table"), served.chunks, header.body)[0].success.owner
    return owner


def test_a_shared_lock_makes_its_connection_read_again_and_nobody_else(bench: Bench) -> None:
    mine, other = ClientSession(), ClientSession()
    owner_is(bench, other, b"old")
    assert shown(bench, mine) == shown(bench, other) == b"old"
    for _ in range(3):
        lock(bench, mine, READ, READ)
        assert shown(bench, mine) is None and shown(bench, other) == b"old"
    owner_is(bench, mine, b"new")
    assert shown(bench, mine) == shown(bench, other) == b"new"


def test_a_load_that_began_before_the_lock_is_too_old_for_it(bench: Bench) -> None:
    mine, other = ClientSession(), ClientSession()
    under_way = bench.asked(other, "get_table", **TABLE)
    assert isinstance(under_way, Forward)
    lock(bench, mine, READ)
    under_way.pending.reply_done(other, reply("get_table", struct("Table", owner=b"old")), monotonic_ns())
    assert shown(bench, other) == b"old" and shown(bench, mine) is None


def test_a_shared_lock_says_nothing_of_other_tables(bench: Bench) -> None:
    mine = ClientSession()
    owner_is(bench, mine, b"old")
    lock(bench, mine, READ, table=b"another")
    assert shown(bench, mine) == b"old"


def test_lists_and_partitions_of_the_table_are_read_again(bench: Bench) -> None:
    mine, other = ClientSession(), ClientSession()
    names = {"db_name": b"d", "tbl_name": b"t", "max_parts": -1}
    owner_is(bench, other, b"o")
    for method, arguments, answer in (
        ("get_partition_names", names, [b"p=1"]),
        ("get_partitions_by_names", PARTITIONS, [struct("Partition", dbName=b"d", tableName=b"t", values=[b"1"])]),
    ):
        forward = bench.asked(other, method, **arguments)
        assert isinstance(forward, Forward)
        forward.pending.reply_done(other, reply(method, answer), monotonic_ns())
        assert isinstance(bench.asked(mine, method, **arguments), Serve), method
        lock(bench, mine, READ)
        assert isinstance(bench.asked(mine, method, **arguments), Forward), method
        assert isinstance(bench.asked(other, method, **arguments), Serve), method
        mine = ClientSession()


@pytest.mark.parametrize("types", [(WRITE,), (EXCLUSIVE,), (READ, EXCLUSIVE), (4,), ()])
def test_any_other_lock_is_for_everybody(bench: Bench, types: tuple[int, ...]) -> None:
    other = ClientSession()
    owner_is(bench, other, b"old")
    lock(bench, ClientSession(), *types)
    assert shown(bench, other) is None


def test_a_shared_lock_that_has_to_wait(bench: Bench) -> None:
    mine = ClientSession()
    owner_is(bench, mine, b"old")
    lock(bench, mine, READ, state=WAITING)
    assert shown(bench, mine) == b"old"


def test_what_was_locked_while_the_disk_is_full(bench: Bench) -> None:
    """A shared lock needs no room."""
    mine, other = ClientSession(), ClientSession()
    owner_is(bench, other, b"old")
    bench.fill_the_disk()
    for _ in range(100):
        lock(bench, mine, READ)
    assert shown(bench, other) == b"old" and shown(bench, mine) is None
    assert not bench.suspension.active
