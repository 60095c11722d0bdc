"""Spools in memory and in a file, and where they end."""

from __future__ import annotations

import resource
import signal
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hms_cache_proxy.budget import Budgets
from hms_cache_proxy.errors import LimitError
from hms_cache_proxy.server.spool import Spool, SpoolRoom
from tests.chance import chance


@pytest.mark.parametrize("memory_bytes", [0, 100, 10_000])
def test_what_was_written_is_read(memory_bytes: int, tmp_path: Path) -> None:
    rng = chance("spool", memory_bytes)
    parts = [rng.randbytes(rng.randint(0, 700)) for _ in range(10)]
    spool = Spool(limit=10_000, limit_name="reply", room=SpoolRoom(str(tmp_path)), memory_bytes=memory_bytes)
    for part in parts:
        spool.write(part)
    whole = b"".join(parts)
    assert spool.size == spool.left == len(whole)
    for _ in range(2):
        read = b""
        while piece := spool.read(333):
            read += piece
            assert spool.left == len(whole) - len(read)
        assert read == whole
        spool.rewind()
    assert spool.read() == whole
    assert not list(tmp_path.iterdir())  # the file has no name
    spool.close()


def test_small_pieces_take_hardly_more_memory_than_they_hold() -> None:
    """Else a client could use many times what the budget allows, byte by byte."""
    spool = Spool(limit=1 << 20, limit_name="reply", room=SpoolRoom())
    tracemalloc.start()
    try:
        for number in range(50_000):
            spool.write(number.to_bytes(3, "big"))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 2 * spool.size
    whole = b"".join(number.to_bytes(3, "big") for number in range(50_000))
    assert spool.read(len(whole)) == whole
    spool.close()


def test_a_file_may_be_written_after_it_was_read() -> None:
    spool = Spool(limit=100, limit_name="reply", room=SpoolRoom(), memory_bytes=4)
    spool.write(b"abcdef")
    assert spool.read(3) == b"abc"
    spool.write(b"ghi")
    assert spool.read() == b"defghi"
    spool.close()


def test_the_limit_is_named() -> None:
    spool = Spool(limit=10, limit_name="max_message_bytes", room=SpoolRoom())
    spool.write(b"0123456789")
    with pytest.raises(LimitError) as error:
        spool.write(b"x")
    assert error.value.limit == "max_message_bytes"
    assert spool.read() == b"0123456789"


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """A disk without room."""
    assert signal.getsignal(signal.SIGXFSZ) == signal.SIG_IGN
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("room_bytes", [0, 3, 500, 1000])
def test_what_the_disk_has_no_room_for_is_in_memory(room_bytes: int, tmp_path: Path) -> None:
    rng = chance("full disk", room_bytes)
    parts = [rng.randbytes(rng.randint(1, 300)) for _ in range(10)]
    whole = b"".join(parts)
    budgets = Budgets(10_000, 10_000)
    spool = Spool(limit=10_000, limit_name="reply", room=SpoolRoom(str(tmp_path), budgets), memory_bytes=50)
    with files_of_at_most(room_bytes):
        for number, part in enumerate(parts):
            spool.write(part)
            if number == 7:
                assert spool.read(20) == whole[:20], "it may be read meanwhile"
    assert budgets.memory.used == len(whole) - min(len(whole), room_bytes)
    assert budgets.spool.used == min(len(whole), room_bytes)
    spool.rewind()
    assert spool.read(len(whole)) == whole and not spool.left
    spool.rewind()
    assert b"".join(iter(lambda: spool.read(333), b"")) == whole
    spool.close()
    assert budgets.memory.used == budgets.spool.used == 0


def test_no_room_for_the_file_nor_in_memory(tmp_path: Path) -> None:
    room = SpoolRoom(str(tmp_path / "absent"), Budgets(1000, 1000))
    spool = Spool(limit=2000, limit_name="reply", room=room, memory_bytes=4)
    spool.write(b"a" * 700)
    with pytest.raises(LimitError, match="No such file") as error:
        spool.write(b"b" * 300)
    assert error.value.limit == "spool_bytes"
