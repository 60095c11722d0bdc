"""A file of lines: it turns by size, keeps so many, follows who moves it, and never mixes lines."""

from __future__ import annotations

import errno
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hms_cache_proxy.server.log_file import LogFile

LINE = b"0123456789\n"


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines()


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Files of this process grow no further: a write is cut short, and the next one fails, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_it_turns_by_size_and_keeps_so_many(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "access-0.jsonl"
    file = LogFile(path, max_bytes=30, files=3)
    for number in range(9):
        assert file.write(b"line %05d\n" % number) == (1, None)
    names = {one.name: lines_of(one) for one in path.parent.iterdir()}
    assert names == {
        "access-0.jsonl": [b"line 00008"],
        "access-0.jsonl.1": [b"line 00006", b"line 00007"],
        "access-0.jsonl.2": [b"line 00004", b"line 00005"],
    }
    assert path.stat().st_mode & 0o007 == 0


def test_fewer_files_than_before(tmp_path: Path) -> None:
    path = tmp_path / "log"
    for number in range(1, 6):
        (tmp_path / f"log.{number}").write_bytes(LINE)
    file = LogFile(path, max_bytes=20, files=2)
    for _ in range(3):
        file.write(LINE)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["log", "log.1"]
    only = LogFile(path, max_bytes=20, files=1)
    only.write(LINE)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["log"]
    assert lines_of(path) == [LINE.strip()]


def test_what_is_larger_than_a_file_has_one_of_its_own(tmp_path: Path) -> None:
    file = LogFile(tmp_path / "log", max_bytes=30, files=3)
    file.write(LINE)
    file.write(LINE * 9)
    file.write(LINE)
    assert [len(lines_of(tmp_path / name)) for name in ("log.2", "log.1", "log")] == [1, 9, 1]


def test_it_follows_who_moves_or_removes_it(tmp_path: Path) -> None:
    path = tmp_path / "log"
    file = LogFile(path, max_bytes=1 << 20, files=3)
    file.write(b"first\n")
    path.rename(tmp_path / "moved")
    file.write(b"second\n")
    path.unlink()
    file.write(b"third\n")
    assert lines_of(tmp_path / "moved") == [b"first"]
    assert lines_of(path) == [b"third"]


def test_a_line_that_was_cut_is_ended(tmp_path: Path) -> None:
    """By a killed process."""
    path = tmp_path / "log"
    path.write_bytes(b"whole\ncut")
    file = LogFile(path, max_bytes=1 << 20, files=3)
    file.write(b"next\n")
    file.write(b"last\n")
    assert path.read_bytes() == b"whole\ncut\nnext\nlast\n"


def test_a_full_disk(tmp_path: Path) -> None:
    file = LogFile(tmp_path / "log", max_bytes=1 << 20, files=3)
    file.write(LINE)
    with largest_file(40):
        written, error = file.write(LINE * 10)
        assert written == 2 and error is not None and error.errno == errno.EFBIG
        assert file.write(LINE)[0] == 0
    assert file.write(LINE) == (1, None)
    lines = lines_of(tmp_path / "log")
    assert lines == [LINE.strip()] * 3 + [LINE[:7], LINE.strip()]  # the cut one stands alone


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    file = LogFile(tmp_path / "file" / "log", max_bytes=1 << 20, files=3)
    written, error = file.write(LINE)
    assert written == 0 and isinstance(error, NotADirectoryError | FileExistsError)
    (tmp_path / "file").unlink()
    assert file.write(LINE) == (1, None)
