"""What requests and replies under way take of memory and disk has a bound for all connections of a worker together."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hms_cache_proxy.budget import Budget, Budgets, Charge
from hms_cache_proxy.cache.targets import ALL
from hms_cache_proxy.consistency.floors import Floors
from hms_cache_proxy.errors import LimitError
from hms_cache_proxy.methods.decision import Serve
from hms_cache_proxy.server import outbox
from hms_cache_proxy.server.commands import Again, Close, ReadingUpstream, Send, SendUpstream, Why
from hms_cache_proxy.server.connection import PATIENCE_NS
from hms_cache_proxy.server.inbox import WINDOW_BYTES, Inbox
from hms_cache_proxy.server.slow_clients import SlowClients
from hms_cache_proxy.server.spool import Spool, SpoolRoom
from hms_cache_proxy.wire.message import MessageLimits
from tests.server.playbook import READ, RELAY, SECOND, Playbook, exception_in, framed, kinds, reply_to, sent
from tests.server.scripted import STOP, string_field
from tests.testbed.raw import encode_call

KILOBYTE, MEGABYTE = 1 << 10, 1 << 20


def room_of(tmp_path: Path, *, memory: int = 100 * MEGABYTE, spool: int = 100 * MEGABYTE) -> SpoolRoom:
    return SpoolRoom(str(tmp_path), Budgets(memory, spool))


def used(room: SpoolRoom) -> tuple[int, int]:
    return room.budgets.memory.used, room.budgets.spool.used


def test_a_quarter_is_for_writes() -> None:
    budget = Budget("x", 100)
    read, write = Charge(budget), Charge(budget, for_write=True)
    assert not read.grow(76) and read.grow(75) and not read.grow(1)
    assert write.grow(25) and not write.grow(1)
    assert Charge(budget, must=True).grow(1000)
    assert budget.used == 100, "nobody has it any more"
    del read
    write.close()
    assert budget.used == 0


def test_a_spool_is_in_a_file_where_memory_is_used_up(tmp_path: Path) -> None:
    room = room_of(tmp_path, memory=1000, spool=8000)
    spools = [Spool(limit=MEGABYTE, limit_name="reply", room=room) for _ in range(3)]
    for spool in spools:
        spool.write(b"a" * 400)
    assert used(room) == (400, 800)
    spools[0].write(b"b" * 400)
    assert used(room) == (0, 1600)
    with pytest.raises(LimitError) as raised:
        spools[1].write(b"c" * 5000)
    assert raised.value.limit == "spool_bytes"
    assert spools[0].read() == b"a" * 400 + b"b" * 400
    write = Spool(limit=MEGABYTE, limit_name="max_message_bytes", room=room, for_write=True)
    write.write(b"d" * 6000)
    for each in (*spools, write):
        each.close()
    assert used(room) == (0, 0)


def test_a_small_request_is_read_whole_without_memory(tmp_path: Path) -> None:
    """In two packets; else a set_ugi of few bytes would count as too long after a login."""
    room = room_of(tmp_path, memory=0)
    inbox = Inbox(MessageLimits(), room)
    for size in (1, 50_000):
        message = encode_call("get_database", "d" * size)
        inbox.add(message[:9])
        assert inbox.next() is None
        inbox.add(message[9:])
        request = inbox.next()
        assert request is not None and request.spool is None and request.message == message
    assert used(room) == (0, 0)


def test_a_request_counts_until_it_is_over(tmp_path: Path) -> None:
    room = room_of(tmp_path)
    book = Playbook(room=room)
    request = encode_call("get_table_objects_by_name", "d", ["t" * 1000] * 3000, seqid=5)
    for at in range(0, len(request), 60_000):
        commands = book.received(request[at : at + 60_000])
    assert used(room) == (len(request), 0)
    if SendUpstream not in kinds(commands):
        commands = book.opened()
    assert SendUpstream in kinds(commands)
    book.upstream(reply_to(request))
    assert used(room) == (0, 0)


def test_a_write_that_is_too_large_for_what_is_left_of_memory_goes_through_a_file(tmp_path: Path) -> None:
    room = room_of(tmp_path, memory=MEGABYTE)
    book = Playbook(room=room)
    request = encode_call("add_partitions", seqid=5)[:-1] + string_field(9, b"y" * (3 * MEGABYTE)) + STOP
    assert len(request) < WINDOW_BYTES
    book.dispatcher.decision = replace(RELAY, label="add_partitions", outcome="write")
    for at in range(0, len(request), 60_000):
        commands = book.received(request[at : at + 60_000])
    assert used(room) == (0, len(request))
    assert len(book.dispatcher.seen[0]) < len(request), "what it names is read from its beginning"
    commands += book.opened()
    passed = b"".join(command.data for command in commands if isinstance(command, SendUpstream))
    while len(passed) < len(request):
        passed += b"".join(command.data for command in book.core.turn(book.now) if isinstance(command, SendUpstream))
    assert passed == request
    reply = reply_to(request)
    assert sent(book.upstream(reply)) == reply
    assert used(room) == (0, 0)


def test_a_reply_is_not_held_where_memory_is_used_up(tmp_path: Path) -> None:
    room = room_of(tmp_path, memory=MEGABYTE)
    taken = Charge(room.budgets.memory)
    assert taken.grow(700 * KILOBYTE)
    for outcome, held in (("miss", False), ("write", True)):
        book = Playbook(room=room)
        book.dispatcher.decision = replace(RELAY, outcome=outcome, hold_bytes=MEGABYTE)  # type: ignore[arg-type]
        book.relaying()
        reply = reply_to(READ, size=200 * KILOBYTE)
        passed = sent(book.upstream(reply[:150_000]))
        assert bool(passed) is not held
        assert passed + sent(book.upstream(reply[150_000:])) == reply
        assert book.dispatcher.hooks[-1] == ("done", reply if held else None)
        del book
        gc.collect()
        assert used(room) == (700 * KILOBYTE, 0)


def listing(parts: int) -> Iterator[bytes]:
    for number in range(parts):
        yield b"%03d" % number + b"x" * (600 * KILOBYTE)


def served(room: SpoolRoom) -> Playbook:
    """A client that does not read a listing."""
    book = Playbook(room=room)
    book.dispatcher.decision = Serve(listing(20), "get_partitions")
    assert Again in kinds(book.received(READ))
    book.core.client_blocked()
    return book


def test_a_listing_waits_for_its_client_where_there_is_no_room(tmp_path: Path) -> None:
    room = room_of(tmp_path, spool=8 * MEGABYTE)
    book = served(room)
    passed = b"000" + b"x" * (600 * KILOBYTE)
    while Again in kinds(book.core.turn(book.now)):
        pass
    assert MEGABYTE < used(room)[1] <= 6 * MEGABYTE
    commands = book.core.client_writable(book.now)
    for _ in range(1000):
        passed += sent(commands)
        if not any(isinstance(command, Send | Again) for command in commands):
            break
        commands = book.core.turn(book.now)
    assert passed == b"".join(listing(20))
    assert used(room) == (0, 0)


def test_a_client_that_never_reads_it_is_closed(tmp_path: Path) -> None:
    room = room_of(tmp_path, spool=8 * MEGABYTE)
    book = served(room)
    while Again in kinds(book.core.turn(book.now)):
        pass
    assert book.core.expire(book.now + PATIENCE_NS) == []
    (closed,) = [each for each in book.core.expire(book.now + PATIENCE_NS + 1) if isinstance(each, Close)]
    assert (closed.why, closed.key) == (Why.LIMIT, "spool_bytes")
    assert used(room) == (0, 0)


def test_a_client_that_reads_slowly_is_not_closed_however_long_the_worker_takes(tmp_path: Path) -> None:
    room = room_of(tmp_path)
    book = served(room)
    for _ in range(5):
        book.now += PATIENCE_NS
        assert Close not in kinds(book.core.expire(book.now))
        book.core.turn(book.now)
    book.core.gone(book.now)
    assert used(room) == (0, 0)


def test_a_framed_reply_without_room_is_refused_in_words(tmp_path: Path) -> None:
    room = room_of(tmp_path, spool=3 * MEGABYTE)
    book = Playbook(room=room)
    book.dispatcher.decision = Serve(listing(20), "get_partitions")
    commands = book.received(framed(READ))
    while not sent(commands):
        commands = book.core.turn(book.now)
    assert b"limits.spool_bytes is used up" in sent(commands)
    assert used(room) == (0, 0)
    book.dispatcher.decision = RELAY
    commands = book.received(framed(READ))
    assert SendUpstream in kinds(commands) or SendUpstream in kinds(book.opened())
    reply = reply_to(READ, size=9 * MEGABYTE)
    for at in range(0, len(reply), MEGABYTE):
        commands = book.upstream(reply[at : at + MEGABYTE])
        if sent(commands):
            break
    assert b"limits.spool_bytes is used up" in exception_in([Send(sent(commands)[4:])])
    assert ReadingUpstream not in kinds(commands)
    assert used(room) == (0, 0)


def test_a_large_reply_that_is_there_goes_into_a_file_while_memory_is_short(tmp_path: Path) -> None:
    room = room_of(tmp_path, memory=4 * MEGABYTE)
    taken = Charge(room.budgets.memory)
    assert taken.grow(3 * MEGABYTE)
    book = Playbook(room=room)
    reply = reply_to(READ, size=2 * outbox.WHOLE_BYTES)
    book.dispatcher.decision = Serve(reply, "get_partitions")
    commands = book.received(READ)
    assert used(room)[1] == len(reply)
    passed = sent(commands)
    assert len(passed) < len(reply)
    while Again in kinds(commands):
        commands = book.core.turn(book.now)
        passed += sent(commands)
    assert passed == reply and used(room) == (3 * MEGABYTE, 0)


def test_floors_become_one_where_memory_is_used_up() -> None:
    memory = Budget("memory_bytes", 100_000)
    many = [Floors(memory) for _ in range(10)]
    for number, floors in enumerate(many):
        floors.lift([b"t%d" % each for each in range(200)], SECOND + number)
    assert memory.used <= 100_000
    for number, floors in enumerate(many):
        assert floors.block([b"t7"], SECOND + number), "never forgotten"
        assert not floors.block([b"t7"], SECOND + number + 1)
    assert memory.used == 0
    last = Floors(Budget("memory_bytes", 10))
    last.lift([b"t1"], 5)
    assert last.block([b"t2"], 5) and last.block([ALL], 5)


def test_who_has_not_read_for_the_longest_time_goes_first() -> None:
    memory = Budget("memory_bytes", 100)
    stuck: SlowClients[str] = SlowClients(memory)
    for number, name in enumerate("abc"):
        stuck.add(name, 60, number)
    assert list(stuck.too_much(SECOND - 1)) == []
    assert list(stuck.too_much(SECOND + 2)) == ["a", "b"]
    assert memory.used == 60
    stuck.remove("c")
    stuck.remove("a")
    assert memory.used == 0 and list(stuck.too_much(9 * SECOND)) == []
