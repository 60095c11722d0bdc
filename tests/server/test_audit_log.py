"""The audit log without connections: what a line says, what came back, gaps, bounds."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from hms_cache_proxy.cache.replies import HitLabel
from hms_cache_proxy.methods.decision import ClientSession
from hms_cache_proxy.methods.refusal import refusal
from hms_cache_proxy.methods.table import METHODS
from hms_cache_proxy.metrics import CallCounts, Outcome, WorkerMetrics
from hms_cache_proxy.security.mechanism import Admitted
from hms_cache_proxy.server import audit_log
from hms_cache_proxy.server.audit_lines import MOST_OBJECTS, REPLY_BYTES, came_back, objects_of
from hms_cache_proxy.server.audit_log import AuditLog, transport_name
from hms_cache_proxy.server.commands import Observe
from hms_cache_proxy.server.inbox import Request
from hms_cache_proxy.server.log_file import LogFile
from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.message import ApplicationError, MessageType, exception_message, message_header
from tests.chance import chance
from tests.server.test_access_log import header_of, struct
from tests.testbed.raw import encode_call


def reply_to(method: str, **fields: object) -> bytes:
    """A whole reply as a metastore encodes it."""
    head = message_header(method.encode(), MessageType.REPLY, 7)
    return head + spec.encode(spec.result(method)(**fields))


def back(method: str, **fields: object) -> tuple[int | None, str | None]:
    return came_back(method, reply_to(method, **fields)[:REPLY_BYTES])


def objects(name: str, *arguments: object) -> list[str]:
    message = encode_call(name, *arguments)
    return objects_of(name, message, header_of(message).body, complete=True)


class Bench:
    """An audit log and what it has written."""

    def __init__(self, directory: Path, **more: int) -> None:
        self.path = directory / "audit-0.jsonl"
        self.metrics = WorkerMetrics()
        self.log = AuditLog(LogFile(self.path, max_bytes=1 << 20, files=100), self.metrics, **more)
        self.session = ClientSession(peer="10.0.0.7:51022", transport="tls+sasl", login=Admitted("alice", "GSSAPI"))
        self.session.identity = encode_call("set_ugi", "etl", [])[header_of(encode_call("set_ugi")).body :]

    def observed(self, message: bytes, outcome: Outcome, reason: str = "", reply: bytes = b"") -> None:
        header = header_of(message)
        what = header.name.decode(), outcome, reason, time.monotonic_ns(), len(reply)
        self.log.observed(self.session, Observe(*what, Request(header, message), reply=reply[:REPLY_BYTES]))

    def flush(self) -> None:
        asyncio.run(self.log.flush())

    def lines(self) -> list[dict[str, Any]]:
        self.flush()
        return [json.loads(line) for line in self.path.read_text().splitlines()]

    def counted(self, result: str) -> float:
        return self.metrics.registry.get_sample_value("hms_proxy_audit_log_lines_total", {"result": result}) or 0


def test_what_a_line_says(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    asked = encode_call("get_partitions_by_names", "Sales", "ORDERS", ["day=1", "day=2"])
    two = reply_to("get_partitions_by_names", success=[struct("Partition"), struct("Partition")])
    label = HitLabel(b"", CallCounts(), "get_partitions_by_names", "write_id")
    bench.log.hit(time.monotonic_ns(), 900, two, bench.session, asked, label)
    bench.observed(asked, "miss", "fence", two)
    denied = reply_to("drop_table", o3=struct("MetaException", message=b"user etl may not"))
    bench.observed(encode_call("drop_table", "sales", "orders", True), "write", "", denied)
    bench.observed(encode_call("drop_table", "sales", "orders", True), "error", "read_only", denied)
    bench.session = ClientSession(peer="10.0.0.8:1", transport="plain")
    bench.observed(encode_call("get_all_databases"), "error", "no_upstream")
    bench.log.event("login_refused", "10.0.0.9:1", "sasl", mechanism="GSSAPI", why="a ticket has expired")
    lines = bench.lines()
    for line in lines:
        stamp = line.pop("time")
        assert stamp[-1] == "Z" and len(stamp) == len("2026-11-22T16:28:18.012Z")
    etl = {"client": "10.0.0.7:51022", "transport": "tls+sasl", "user": "etl", "user_by": "sasl"}
    about = {"event": "call", "objects": ["hive.sales.orders"], **etl}
    read = {"method": "get_partitions_by_names", "partitions": 2}
    assert lines[0] == {**about, **read, "outcome": "hit", "reason": "write_id"}
    assert lines[1] == {**about, **read, "outcome": "relayed", "reason": "fence"}
    drop = {**about, "method": "drop_table"}
    assert lines[2] == {**drop, "outcome": "relayed", "reason": "", "exception": "MetaException"}
    assert lines[3] == {**drop, "outcome": "refused", "reason": "read_only"}
    unknown = {"client": "10.0.0.8:1", "transport": "plain", "user": None, "user_by": None}
    failed = {"outcome": "error", "reason": "no_upstream"}
    assert lines[4] == {"event": "call", "method": "get_all_databases", "objects": ["hive"], **failed, **unknown}
    refused = {"mechanism": "GSSAPI", "why": "a ticket has expired"}
    assert lines[5] == {"event": "login_refused", "client": "10.0.0.9:1", "transport": "sasl", **refused}
    assert bench.counted("written") == 6


def test_how_many_partitions_came_back() -> None:
    part = struct("Partition", values=[b"1"])
    assert back("get_partitions", success=[part] * 300) == (300, None)
    assert back("get_partitions", success=[]) == (0, None)
    assert back("get_partition", success=part) == (1, None)
    assert back("get_partition_names", success=[b"day=1"] * 3) == (3, None)
    assert back("get_partition_names_ps_req", success=struct("GetPartitionNamesPsResponse", names=[b"a"])) == (1, None)
    by_expr = struct("PartitionsByExprResult", partitions=[part] * 2, hasUnknownPartitions=False)
    assert back("get_partitions_by_expr", success=by_expr) == (2, None)
    assert back("get_partition_req", success=struct("GetPartitionResponse", partition=part)) == (1, None)
    assert back("add_partitions_req", success=struct("AddPartitionsResult", isStatsCompliant=True)) == (0, None)
    assert back("get_partitions_pspec", success=[struct("PartitionSpec", dbName=b"d")]) == (None, None)
    assert back("get_table", success=struct("Table", tableName=b"t")) == (None, None)
    assert back("alter_partition") == (None, None)
    absent = struct("NoSuchObjectException", message=b"no")
    assert back("get_partition_by_name", o2=absent) == (None, "NoSuchObjectException")
    unknown = exception_message(b"get_table", 1, ApplicationError.UNKNOWN_METHOD, "no")
    assert came_back("get_table", unknown) == (None, "TApplicationException")


def test_a_refusal_of_the_proxy_is_an_exception_like_any_other() -> None:
    message = encode_call("drop_table", "d", "t", True)
    assert came_back("drop_table", refusal("drop_table", header_of(message), "no")) == (None, "MetaException")


def test_no_beginning_of_a_reply_breaks_a_line() -> None:
    drawn = chance("replies")
    for method in METHODS:
        whole = reply_to(method)
        for end in range(len(whole)):
            came_back(method, whole[:end])
        for _ in range(20):
            body = bytes(drawn.choice(b"\0\1\2\3\x0a\x0b\x0c\x0f\x80\xffab") for _ in range(drawn.randrange(60)))
            came_back(method, (whole[:-1] + body)[:REPLY_BYTES])


def test_objects_are_the_innermost_that_are_named() -> None:
    table = struct("Table", dbName="d", tableName="t")
    assert objects("get_table", "D", "T") == ["hive.d.t"]
    assert objects("create_table", table) == ["hive.d.t"]
    assert objects("alter_table", "d", "t", struct("Table", dbName="e", tableName="u")) == ["hive.d.t", "hive.e.u"]
    assert objects("get_table_objects_by_name", "d", ["a", "b"]) == ["hive.d.a", "hive.d.b"]
    assert objects("drop_database", "d", True, False) == ["hive.d"]
    assert objects("get_all_databases") == ["hive"]
    assert objects("getMetaConf", "hive.secret") == []
    assert objects_of("no_such_method", b"", 0, complete=True) == ["*"]


def test_a_grant_names_what_it_is_on() -> None:
    on = struct("HiveObjectRef", objectType=3, dbName="d", objectName="t")
    assert objects("grant_privileges", struct("PrivilegeBag", privileges=[privilege_on(on)])) == ["hive.d.t"]
    of_database = struct("HiveObjectRef", objectType=2, dbName="d")
    assert objects("revoke_privileges", struct("PrivilegeBag", privileges=[privilege_on(of_database)])) == ["hive.d"]


def privilege_on(what: object) -> object:
    return struct("HiveObjectPrivilege", hiveObject=what)


def test_a_commit_that_sets_a_parameter_may_be_about_everything() -> None:
    pair = spec.struct("CommitTxnKeyValue")(tableId=1, key=b"k", value=b"v")
    for commit, expected in (({"txnid": 1}, []), ({"txnid": 1, "keyValue": pair}, ["*"])):
        arguments = spec.encode(spec.args("commit_txn")(rqst=spec.struct("CommitTxnRequest")(**commit)))
        assert objects_of("commit_txn", arguments, 0, complete=True) == expected


def test_a_long_list_of_objects_is_cut_and_says_so(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.observed(encode_call("get_table_objects_by_name", "d", [f"t{number}" for number in range(250)]), "hit")
    (line,) = bench.lines()
    assert len(line["objects"]) == MOST_OBJECTS and line["more_objects"] == 150


def test_lines_that_are_missing_are_counted_and_the_file_says_where(tmp_path: Path) -> None:
    bench = Bench(tmp_path, most=3)
    message = encode_call("get_table", "d", "t")
    for _ in range(5):
        bench.observed(message, "hit")
    bench.flush()
    bench.observed(message, "hit")
    lines = bench.lines()
    assert [line["event"] for line in lines] == ["lines_missing", *["call"] * 4]
    assert (lines[0]["lines"], lines[0]["why"]) == (2, "overflow")
    assert (bench.counted("overflow"), bench.counted("written")) == (2, 5)


def test_a_file_that_could_not_be_written_tells_of_the_gap_when_it_can(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    bench = Bench(tmp_path / "file")
    for _ in range(3):
        bench.observed(encode_call("get_table", "d", "t"), "hit")
    bench.flush()
    bench.flush()
    assert (bench.counted("failed"), bench.counted("written")) == (3, 0)
    (tmp_path / "file").unlink()
    (line,) = bench.lines()
    assert (line["event"], line["lines"], line["why"]) == ("lines_missing", 3, "failed")
    assert len(bench.lines()) == 1


def test_the_memory_of_what_waits_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_log, "WAITING_BYTES", 1000)
    bench = Bench(tmp_path)
    message = encode_call("get_table", "d" * 300, "t")
    for _ in range(5):
        bench.observed(message, "hit")
    assert [line["event"] for line in bench.lines()] == ["lines_missing", "call", "call"]
    for _ in range(5):
        bench.log.event("login_refused", "10.0.0.9:1", "http", status=401, why="not believed", detail="x" * 400)
    assert [line["event"] for line in bench.lines()[3:]] == ["lines_missing", "login_refused", "login_refused"]


def test_a_transport_is_named_as_in_the_settings() -> None:
    named = [transport_name(name, over_tls=tls) for name in ("plain", "sasl", "http") for tls in (False, True)]
    assert named == ["plain", "tls", "sasl", "tls+sasl", "http", "tls+http"]
