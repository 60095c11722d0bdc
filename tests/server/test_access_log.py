"""The access log without connections: what a line says, what is kept back, sampling, the bound, a file that fails."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

from hms_cache_proxy.cache.replies import HitLabel
from hms_cache_proxy.methods.decision import ClientSession
from hms_cache_proxy.methods.table import METHODS
from hms_cache_proxy.metrics import CallCounts, Outcome, WorkerMetrics
from hms_cache_proxy.server.access_lines import HEAD_BYTES, object_of, user_of
from hms_cache_proxy.server.access_log import AccessLog
from hms_cache_proxy.server.commands import Observe
from hms_cache_proxy.server.inbox import Request
from hms_cache_proxy.server.line_log import WAITING_ITEMS
from hms_cache_proxy.server.log_file import LogFile
from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.message import Header, MessageType, message_header, parse_header
from tests.chance import chance
from tests.testbed.raw import encode_call

SECOND = 1_000_000_000


def header_of(message: bytes) -> Header:
    header = parse_header(message)
    assert isinstance(header, Header)
    return header


def asked(name: str, *arguments: object) -> tuple[str | None, int]:
    message = encode_call(name, *arguments)
    head = message[:HEAD_BYTES]
    return object_of(name, head, header_of(message).body, complete=len(head) == len(message))


def struct(name: str, /, **fields: object) -> spec.Struct:
    made = spec.struct(name)()
    for field, value in fields.items():
        setattr(made, field, value)
    return made


class Bench:
    """An access log and what it has written."""

    def __init__(
        self, directory: Path, sample: float = 1.0, *, max_bytes: int = 1 << 20, most: int = WAITING_ITEMS
    ) -> None:
        self.path = directory / "access-0.jsonl"
        self.metrics = WorkerMetrics()
        self.log = AccessLog(LogFile(self.path, max_bytes=max_bytes, files=100), sample, self.metrics, most=most)
        self.session = ClientSession(peer="10.0.0.7:51022")

    def observed(self, message: bytes, outcome: Outcome = "miss", reason: str = "", **more: Any) -> None:
        header = header_of(message)
        request = Request(header, message)
        label = more.get("label", header.name.decode())
        observed = Observe(label, outcome, reason, time.monotonic_ns(), more.get("reply_bytes", 100), request)
        self.log.observed(self.session, more.get("took_ns", 1_500_000), observed)

    def hit(self, message: bytes, label: HitLabel, *, took_ns: int = 4_321) -> None:
        self.log.hit(time.monotonic_ns(), took_ns, bytes(2931), self.session, message, label)

    def lines(self) -> list[dict[str, Any]]:
        asyncio.run(self.log.flush())
        files = sorted(self.path.parent.glob("access-0.jsonl*"), key=lambda path: path.suffix)
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]

    def counted(self, result: str) -> float:
        return self.metrics.registry.get_sample_value("hms_proxy_access_log_lines_total", {"result": result}) or 0


def known(label: str, reason: str = "") -> HitLabel:
    return HitLabel(b"", CallCounts(), label, reason)


def test_what_a_line_says(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.session.identity = encode_call("set_ugi", "etl", ["etl", "hadoop"])[header_of(encode_call("set_ugi")).body :]
    before = time.time()
    bench.observed(encode_call("get_table", "Sales", "ORDERS"), "miss", "fence", reply_bytes=2931)
    bench.hit(encode_call("get_table", "Sales", "ORDERS"), known("get_table", "write_id"))
    bench.session.identity = None
    bench.observed(encode_call("get_all_databases"), "hit", label="get_all_databases")
    missed, hit, listed = bench.lines()
    for line in (missed, hit, listed):
        stamp = line.pop("time")
        assert stamp[-1] == "Z" and len(stamp) == len("2026-11-22T16:28:18.012Z")
        made = time.mktime(time.strptime(stamp[:19], "%Y-%m-%dT%H:%M:%S")) - time.timezone
        assert int(before) <= made <= time.time()
    common = {"method": "get_table", "object": "hive.sales.orders", "client": "10.0.0.7:51022", "user": "etl"}
    assert missed == {**common, "outcome": "miss", "reason": "fence", "bytes": 2931, "us": 1500}
    assert hit == {**common, "outcome": "hit", "reason": "write_id", "bytes": 2931, "us": 4}
    assert (listed["object"], listed["user"]) == ("hive", None)
    assert bench.counted("written") == 3


def test_what_a_call_is_about() -> None:
    table, part = struct("Table", dbName="d", tableName="t"), struct("Partition", dbName="d", tableName="t")
    assert asked("get_table", "d", "t") == ("hive.d.t", 1)
    assert asked("get_table", "@other#d", "t") == ("other.d.t", 1)
    assert asked("get_database", "d") == ("hive.d", 0)
    assert asked("get_all_tables", "d") == ("hive.d", 0)
    assert asked("get_databases", "*") == ("hive", 0)
    assert asked("get_function", "d", "f") == ("hive.d", 0)
    assert asked("get_all_functions") == (None, 0)
    assert asked("getMetaConf", "secret") == (None, 0)
    assert asked("get_table_objects_by_name", "d", ["a", "b", "c"]) == ("hive.d", 3)
    assert asked("get_table_objects_by_name", "d", ["a"]) == ("hive.d.a", 1)
    assert asked("create_table", table) == ("hive.d.t", 1)
    assert asked("drop_table", "d", "t", True) == ("hive.d.t", 1)
    assert asked("alter_table", "d", "t", table) == ("hive.d.t", 1)
    assert asked("alter_table", "d", "u", table) == ("hive.d", 2)  # a rename
    assert asked("create_database", struct("Database", name="d")) == ("hive.d", 0)
    assert asked("drop_database", "d", True, False) == ("hive.d", 0)
    assert asked("add_partitions", [part]) == ("hive.d.t", 1)
    assert asked("get_partitions_by_names", "d", "t", ["day=1"]) == ("hive.d.t", 1)
    elsewhere = [struct("LockComponent", dbname="d", tablename="t"), struct("LockComponent", dbname="e", tablename="t")]
    assert asked("lock", struct("LockRequest", component=elsewhere[:1])) == ("hive.d.t", 1)
    assert asked("lock", struct("LockRequest", component=elsewhere)) == (None, 2)
    assert object_of("other", b"", 0, complete=True) == (None, 0)


def test_the_beginning_of_a_long_request_is_enough() -> None:
    names = [f"day={number:08d}" for number in range(1000)]
    many = [struct("Partition", values=[name], dbName="d", tableName="t") for name in names]
    assert asked("get_partitions_by_names", "d", "t", names) == ("hive.d.t", 1)
    request = struct("PartitionsByExprRequest", dbName="d", tblName="t", expr=b"x" * 5000)
    assert asked("get_partitions_by_expr", request) == ("hive.d.t", 1)
    assert asked("add_partitions", many) == ("hive.d.t", 1)
    assert asked("get_table_objects_by_name", "d", names) == ("hive.d", 0)
    assert asked("get_table", "d" * 600, "t") == (None, 0)


def test_no_request_breaks_a_line(tmp_path: Path) -> None:
    """Whatever the bytes are, and wherever they end: a line, and never more than the names."""
    drawn = chance("requests")
    bench = Bench(tmp_path, max_bytes=1 << 30)
    for name in METHODS:
        head = message_header(name.encode(), MessageType.CALL, 0)
        for _ in range(6):
            arguments = bytes(drawn.choice(b"\0\1\2\3\x0a\x0b\x0c\x0f\x80\xffab") for _ in range(drawn.randrange(600)))
            bench.observed(head + arguments)
    whole = encode_call("alter_table", "d", "t", struct("Table", dbName="d", tableName="t"))
    for end in range(header_of(whole).body, len(whole)):
        bench.observed(whole[:end], label="alter_table")
    assert len(bench.lines()) == 6 * len(METHODS) + len(whole) - header_of(whole).body


def test_names_are_escaped_and_bounded(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.observed(encode_call("get_table", 'a"\n\u2028', "b\\"))
    user = spec.args("set_ugi")()
    user.user_name = "x" * 5000
    bench.session.identity = spec.encode(user)
    bench.observed(encode_call("get_table", "a", "b"))
    first, second = bench.lines()
    assert first["object"] == 'hive.a"\n\u2028.b\\'
    assert second["user"] == "x" * 128
    assert user_of(b"") is None and user_of(b"\x0b\0\x01\xff") is None


def test_a_sample_says_what_it_stands_for(tmp_path: Path) -> None:
    bench = Bench(tmp_path, sample=0.1)
    message, it = encode_call("get_table", "d", "t"), known("get_table")
    for _ in range(10_000):
        bench.hit(message, it)
        bench.observed(message)
    lines = bench.lines()
    assert 1700 < len(lines) < 2300
    assert {line["sample"] for line in lines} == {0.1}
    hits = sum(line["outcome"] == "hit" for line in lines)
    assert 800 < hits < 1200


def test_too_many_calls_are_counted(tmp_path: Path) -> None:
    bench = Bench(tmp_path, most=100)
    message, it = encode_call("get_table", "d", "t"), known("get_table")
    for _ in range(101):
        bench.hit(message, it)
    bench.observed(message)
    assert len(bench.lines()) == bench.counted("written") == 100
    assert bench.counted("overflow") == 2
    bench.observed(message)
    assert len(bench.lines()) == 101


def test_it_turns_while_it_writes_and_loses_nothing(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for number in range(12_000):
        bench.observed(encode_call("get_table", "d", f"t{number}"))
    lines = bench.lines()
    assert sorted(line["object"] for line in lines) == sorted(f"hive.d.t{number}" for number in range(12_000))
    files = list(tmp_path.iterdir())
    assert len(files) == 3 and all(file.stat().st_size <= 1 << 20 for file in files)


def test_a_file_that_cannot_be_written_costs_lines_only(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    bench = Bench(tmp_path / "file")
    message = encode_call("get_table", "d", "t")
    for _ in range(3):
        bench.observed(message)
    asyncio.run(bench.log.flush())
    assert (bench.counted("failed"), bench.counted("written")) == (3, 0)
    (tmp_path / "file").unlink()
    bench.observed(message)
    assert len(bench.lines()) == 1 and bench.counted("written") == 1


def test_a_flush_does_not_hold_the_loop(tmp_path: Path) -> None:
    """Others have their turn between slices; how long a slice takes is for benchmarks/access_log.py to say."""
    bench = Bench(tmp_path, max_bytes=1 << 30)
    message, it = encode_call("get_table", "d", "t"), known("get_table")
    for _ in range(20_000):
        bench.hit(message, it)
    turns = 0

    async def flushing() -> None:
        nonlocal turns
        flush = asyncio.create_task(bench.log.flush())
        while not flush.done():
            turns += 1
            await asyncio.sleep(0)

    asyncio.run(flushing())
    assert turns > 20
    assert len(bench.lines()) == 20_000
