"""Spools in memory and in a file, and where they end."""

from __future__ import annotations

from pathlib import Path

import pytest

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


def test_no_room_for_the_file(tmp_path: Path) -> None:
    spool = Spool(limit=100, limit_name="reply", room=SpoolRoom(str(tmp_path / "absent")), memory_bytes=4)
    with pytest.raises(LimitError) as error:
        spool.write(b"abcdef")
    assert error.value.limit == "spool"
