"""Recordings as files: what is written is read, what is torn is cut, and nothing else is ever written to."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import time
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from hms_cache_proxy.errors import ConfigError
from hms_cache_proxy.metrics import WorkerMetrics
from hms_cache_proxy.recording import writer as recording_writer
from hms_cache_proxy.recording.file import Damage, RecordingFile
from hms_cache_proxy.recording.format import HEADER_BYTES, Record, RecordingState, decode, encode, payload_bytes
from hms_cache_proxy.recording.start import examine
from hms_cache_proxy.recording.writer import Writer

MIB = 1 << 20


def record(number: int, size: int = 10) -> Record:
    """A made-up one."""
    return Record(number, 2, b"get_table", b"arguments %d" % number, b"r" * size)


def begun(path: Path) -> Damage | None:
    """Begin or take up a recording."""
    file, damage = RecordingFile.begin(str(path), now_ms=1, until_ms=0)
    file.close()
    return damage


def append(path: Path, *numbers: int, max_bytes: int = MIB, size: int = 10) -> int:
    """How many of these were written."""
    file = RecordingFile.to_append(str(path))
    written = file.append([encode(record(number, size)) for number in numbers], max_bytes)
    file.close()
    return written


def content(path: Path) -> tuple[list[Record], Damage | None]:
    """All records, and what stops them."""
    file = RecordingFile.to_read(str(path))
    found = list(file.records(file.header().end))
    file.close()
    damage = found.pop() if found and isinstance(found[-1], Damage) else None
    return [one.record for one in found if not isinstance(one, Damage)], damage if isinstance(damage, Damage) else None


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "r"
    assert begun(path) is None
    assert append(path, 1, 2) == 2 and append(path, 3, size=3 * MIB, max_bytes=8 * MIB) == 1
    records, damage = content(path)
    assert records == [record(1), record(2), record(3, 3 * MIB)] and damage is None
    assert begun(path) is None, "it goes on where it ended"
    append(path, 4, max_bytes=8 * MIB)
    assert len(content(path)[0]) == 4


def test_mode(tmp_path: Path) -> None:
    path = tmp_path / "r"
    before = os.umask(0)
    try:
        begun(path)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_torn_end_is_told_and_cut(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "r"
    begun(path)
    append(path, 1, 2, 3)
    last = len(encode(record(3)))
    size = path.stat().st_size
    os.truncate(path, size - cut)
    whole = [record(1), record(2)] if cut <= last else [record(1)]
    records, damage = content(path)
    assert records == whole
    assert damage is not None and f"ends {cut} bytes too early" in str(damage)
    told = begun(path)
    assert told is not None and told.at == path.stat().st_size == HEADER_BYTES + len(whole) * last
    append(path, 4)
    assert content(path) == ([*whole, record(4)], None)


def test_what_a_killed_process_left_is_written_over(tmp_path: Path) -> None:
    path = tmp_path / "r"
    begun(path)
    append(path, 1)
    with path.open("ab") as file:
        file.write(encode(record(2))[:-3])
    assert content(path) == ([record(1)], None), "it is not read"
    append(path, 3)
    assert content(path) == ([record(1), record(3)], None), "nor is there a gap"
    with path.open("ab") as file:
        file.write(b"more")
    told = begun(path)
    assert told is not None and "not finished" in str(told) and "4 bytes" in str(told)
    assert content(path) == ([record(1), record(3)], None)


@pytest.mark.parametrize("place", [0, 5, 30, -1])
def test_a_changed_byte_is_noticed(tmp_path: Path, place: int) -> None:
    path = tmp_path / "r"
    begun(path)
    append(path, 1, 2, 3)
    length = len(encode(record(1)))
    data = bytearray(path.read_bytes())
    data[HEADER_BYTES + length + place % length] ^= 0x40
    path.write_bytes(data)
    records, damage = content(path)
    assert records == [record(1)]
    assert damage is not None and (damage.at, damage.lost_bytes) == (HEADER_BYTES + length, 2 * length)


@given(st.binary(max_size=60), st.integers(0, 4), st.data())
def test_any_payload_is_a_record_or_none(rest: bytes, cut: int, data: st.DataObject) -> None:
    """Also one whose checksum is right."""
    payload = bytes(8) + bytes((data.draw(st.integers(0, 5)), data.draw(st.integers(0, 20)))) + rest
    payload = payload[: len(payload) - cut]
    prefix = struct.pack(">II", len(payload), crc32(payload))
    found = None if payload_bytes(prefix) is None else decode(prefix, payload)
    assert found is None or encode(found) == prefix + payload


@pytest.mark.parametrize("foreign", [b"x", b"HMSREC\n" + b"\0" * 100, b"SQLite format 3\0" + b"\0" * 100])
def test_another_file_is_refused_and_left_alone(tmp_path: Path, foreign: bytes) -> None:
    path = tmp_path / "r"
    path.write_bytes(foreign)
    with pytest.raises(ConfigError, match="record: .* is not a recording"):
        begun(path)
    with pytest.raises(ConfigError, match="replay: .* is not a recording"):
        RecordingFile.to_read(str(path))
    assert path.read_bytes() == foreign


def test_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="replay: cannot read .*: Is a directory"):
        RecordingFile.to_read(str(tmp_path))
    with pytest.raises(ConfigError, match="record: cannot open .*: Is a directory"):
        begun(tmp_path)


def test_a_recording_of_another_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r"
    begun(path)
    data = bytearray(path.read_bytes())
    data[9] = 7
    path.write_bytes(data)
    with pytest.raises(ConfigError, match="recording of format 7; this program has format 1"):
        begun(path)


def test_it_stays_within_its_size(tmp_path: Path) -> None:
    path = tmp_path / "r"
    begun(path)
    one = len(encode(record(1)))
    assert append(path, 1, 2, 3, max_bytes=HEADER_BYTES + 2 * one) == 2
    file = RecordingFile.to_read(str(path))
    assert file.header().state is RecordingState.FULL and path.stat().st_size == HEADER_BYTES + 2 * one
    file.close()


def test_the_writer_stops_at_its_size_and_at_its_time(tmp_path: Path) -> None:
    path = tmp_path / "r"
    begun(path)
    writer = Writer(str(path), HEADER_BYTES + 60, WorkerMetrics())
    for number in range(3):
        writer.put(b"m", b"%d" % number, 2, b"r" * 20)
    writer.write(writer.take())
    assert not writer.active, "it is full"
    writer.put(b"m", b"9", 2, b"r")
    writer.close()
    assert len(content(path)[0]) == 1
    file, _ = RecordingFile.begin(str(path), now_ms=1, until_ms=2)
    file.close()
    assert not Writer(str(path), MIB, WorkerMetrics()).active, "its time is over"


def test_what_comes_after_the_set_time_is_left_out_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though it is `write` that stops the writer; what came before is written."""
    path, now_ms = tmp_path / "r", [100]
    monkeypatch.setattr(recording_writer, "_now_ms", lambda: now_ms[0])
    file, _ = RecordingFile.begin(str(path), now_ms=1, until_ms=200)
    file.close()
    writer = Writer(str(path), MIB, WorkerMetrics())
    writer.put(b"m", b"before", 2, b"r")
    waiting = writer.take()
    writer.put(b"m", b"after it was taken", 2, b"r")
    now_ms[0] = 200
    writer.write(waiting)
    assert writer.active, "something waits that came before"
    writer.put(b"m", b"after", 2, b"r")
    writer.close()
    assert not writer.active and [one.arguments for one in content(path)[0]] == [b"before", b"after it was taken"]


def test_the_writer_leaves_out_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "r"
    begun(path)
    writer = Writer(str(path), MIB, WorkerMetrics())
    for result in (b"a", b"a", b"b", b"b", b"a"):
        writer.put(b"m", b"same", 2, result)
    writer.close()
    assert [one.result for one in content(path)[0]] == [b"a", b"b", b"a"]


_APPENDER = """
import sys
from hms_cache_proxy.recording import writer as recording_writer
from hms_cache_proxy.recording.file import RecordingFile
from hms_cache_proxy.recording.format import Record, encode
file = RecordingFile.to_append(sys.argv[1])
for number in range(400):
    records = [encode(Record(int(sys.argv[2]), 2, b"m", b"%d" % number, bytes([number % 251]) * (number * 37 % 9000)))]
    assert file.append(records, 1 << 30) == 1
"""


def test_several_processes_append(tmp_path: Path) -> None:
    """One of them is killed in the middle of it."""
    path = tmp_path / "r"
    begun(path)
    started = [subprocess.Popen([sys.executable, "-c", _APPENDER, str(path), str(n)]) for n in range(3)]
    while not content(path)[0]:
        pass
    started[0].kill()
    assert [process.wait(60) for process in started][1:] == [0, 0]
    records, damage = content(path)
    assert damage is None
    for number in (1, 2):
        assert [one.arguments for one in records if one.recorded_ms == number] == [b"%d" % n for n in range(400)]


def test_what_is_logged_of_a_recording_does_not_depend_on_the_time_zone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert begun(tmp_path / "recording") is None
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        with capture_logs() as logged:
            examine(str(tmp_path / "recording"))
    finally:
        monkeypatch.undo()
        time.tzset()
    assert [one["since"] for one in logged] == ["1970-01-01T00:00:00Z"]
