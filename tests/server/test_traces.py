"""Traces without connections: what spans say, sampling, the bounds, a receiver that fails or does not answer."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from structlog.testing import CapturingLogger

from hms_cache_proxy.cache.replies import HitLabel
from hms_cache_proxy.config import load
from hms_cache_proxy.config.logs import TracesSection
from hms_cache_proxy.errors import ConfigError
from hms_cache_proxy.methods.decision import ClientSession
from hms_cache_proxy.metrics import CallCounts, Outcome, WorkerMetrics
from hms_cache_proxy.server import spans, traces
from hms_cache_proxy.server.commands import Observe
from hms_cache_proxy.server.inbox import Request
from hms_cache_proxy.server.spans import ENDING, SpanMaker
from hms_cache_proxy.server.traces import CLOSE_S, MOST_CALLS, Traces
from tests.otlp import Receiver, receiver
from tests.server.test_access_log import header_of
from tests.testbed.processes import wait_until
from tests.testbed.raw import encode_call

MS = 1_000_000
READ = encode_call("get_table", "Sales", "ORDERS")


@pytest.fixture
def otlp(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with receiver() as one:
        for name, value in one.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(traces, "CLOSE_S", 60.0)  # a busy machine needs more than a worker may take
        yield one
    for thread in threading.enumerate():
        if thread.name == ENDING:
            thread.join(60)  # what it says of this receiver is not for the log of the next test


class Bench:
    """The traces of one worker."""

    def __init__(self, sample: float = 1.0, sample_hits: float = 1.0, *, show_users: bool = False) -> None:
        self.metrics = WorkerMetrics()
        settings = TracesSection(sample, sample_hits, show_users)
        self.traces = Traces(settings, SpanMaker(3, show_users=show_users), self.metrics)
        self.session = ClientSession(peer="10.0.0.7:51022")
        self.session.identity = encode_call("set_ugi", "etl", ["etl"])[header_of(encode_call("set_ugi")).body :]

    def observed(self, outcome: Outcome = "miss", reason: str = "", *, message: bytes = READ, **more: Any) -> None:
        header = header_of(message)
        request = Request(header, message)
        took_ns = more.get("took_ns", 5 * MS)
        began_ns = time.monotonic_ns() - took_ns
        asked_ns = began_ns + more["after_ns"] if "after_ns" in more else 0
        upstream_ns = more.get("upstream_ns", 0)
        label = header.name.decode()
        observed = Observe(label, outcome, reason, began_ns, 2931, request, upstream_ns, asked_ns=asked_ns)
        self.traces.observed(self.session, took_ns, observed)

    def hit(self) -> None:
        label = HitLabel(b"", CallCounts(), "get_table", "write_id")
        self.traces.hit(time.monotonic_ns(), 4_321, bytes(77), self.session, READ, label)

    def flush(self) -> None:
        asyncio.run(self.traces.flush())

    def close(self) -> None:
        asyncio.run(self.traces.close())

    def counted(self, result: str) -> float:
        return self.metrics.registry.get_sample_value("hms_proxy_traced_calls_total", {"result": result}) or 0


def test_what_spans_say(otlp: Receiver) -> None:
    bench = Bench()
    before_ns = time.time_ns() - 10 * MS
    bench.observed("miss", "fence", after_ns=MS, upstream_ns=3 * MS)
    bench.hit()
    bench.observed("hit", message=encode_call("get_all_databases"))
    bench.close()
    assert otlp.paths == {"/v1/traces"}
    missed, hit = otlp.of("get_table")
    (listed,) = otlp.of("get_all_databases")
    common = {
        "rpc.system": "thrift",
        "rpc.service": "ThriftHiveMetastore",
        "rpc.method": "get_table",
        "hms_proxy.object": "hive.sales.orders",
        "client.address": "10.0.0.7",
        "client.port": 51022,
    }
    of_miss = {"hms_proxy.outcome": "miss", "hms_proxy.reason": "fence", "hms_proxy.reply_bytes": 2931}
    assert missed.attributes == {**common, **of_miss}
    of_hit = {"hms_proxy.outcome": "hit", "hms_proxy.reason": "write_id", "hms_proxy.reply_bytes": 77}
    assert hit.attributes == {**common, **of_hit}
    assert "hms_proxy.reason" not in listed.attributes
    assert missed.span.name == "ThriftHiveMetastore/get_table"
    assert (missed.ns, hit.ns) == (5 * MS, 4_321)
    assert before_ns < missed.span.start_time_unix_nano < missed.span.end_time_unix_nano < time.time_ns()
    assert all(not one.span.parent_span_id for one in (missed, hit, listed))
    assert len({one.span.trace_id for one in otlp.spans}) == 3
    assert all(one.span.status.code == Status.StatusCode.STATUS_CODE_UNSET for one in otlp.spans)

    (asked,) = otlp.children(missed)
    assert asked.span.kind == Span.SpanKind.SPAN_KIND_CLIENT and asked.ns == 3 * MS
    assert asked.span.start_time_unix_nano - missed.span.start_time_unix_nano == MS
    assert asked.attributes == {key: common[key] for key in ("rpc.system", "rpc.service", "rpc.method")}
    assert not otlp.children(hit) and not otlp.children(listed)
    resource = missed.resource
    assert resource["service.name"] == "hms-cache-proxy" and resource["service.instance.id"].endswith("/3")
    assert bench.counted("exported") == 3


def test_failed_calls_are_errors(otlp: Receiver) -> None:
    bench = Bench()
    bench.observed("error", "upstream_timeout", after_ns=MS)
    bench.observed("error", "upstream_connect")
    bench.close()
    sent, unsent = otlp.of("get_table")
    for one, reason in ((sent, "upstream_timeout"), (unsent, "upstream_connect")):
        assert (one.span.status.code, one.span.status.message) == (Status.StatusCode.STATUS_CODE_ERROR, reason)
        assert one.attributes["error.type"] == reason
    (asked,) = otlp.children(sent)
    assert asked.span.status.code == Status.StatusCode.STATUS_CODE_ERROR
    assert asked.span.end_time_unix_nano == sent.span.end_time_unix_nano
    assert not otlp.children(unsent)


def test_users_only_if_asked(otlp: Receiver) -> None:
    for show_users in (False, True):
        bench = Bench(show_users=show_users)
        bench.observed()
        bench.close()
    assert [one.attributes.get("user.name") for one in otlp.of("get_table")] == [None, "etl"]
    assert "etl" not in str(otlp.of("get_table")[0])


def test_the_sdks_own_variables_count(otlp: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "lake")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=data")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")  # traces.sample decides
    bench = Bench()
    bench.observed()
    bench.close()
    (one,) = otlp.of("get_table")
    assert (one.resource["service.name"], one.resource["deployment.environment.name"]) == ("lake", "test")
    (headers,) = otlp.headers
    assert (headers["x-team"], headers["Content-Encoding"]) == ("data", "gzip")


def test_samples(otlp: Receiver) -> None:
    bench = Bench(0.5, 0.0)
    assert not bench.traces.of_hits
    for _ in range(200):
        bench.observed("miss")
        bench.observed("hit")
    bench.close()
    found = otlp.of("get_table")
    assert 50 < len(found) < 150 and {one.attributes["hms_proxy.outcome"] for one in found} == {"miss"}
    assert {one.attributes["hms_proxy.sample"] for one in found} == {0.5}

    bench = Bench(0.0, 0.5)
    otlp.spans.clear()
    for _ in range(200):
        bench.observed("miss")
        bench.hit()
    bench.close()
    found = otlp.of("get_table")
    assert 50 < len(found) < 150 and {one.attributes["hms_proxy.outcome"] for one in found} == {"hit"}


def test_calls_beyond_the_bound_have_no_trace(otlp: Receiver) -> None:
    bench = Bench()
    for _ in range(MOST_CALLS + 5):
        bench.hit()
    bench.close()
    assert len(otlp.spans) == MOST_CALLS
    assert (bench.counted("exported"), bench.counted("overflow")) == (MOST_CALLS, 5)


def test_a_receiver_that_refuses(otlp: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    said = CapturingLogger()
    monkeypatch.setattr(spans, "log", said)
    otlp.status = 400
    bench = Bench()
    for _ in range(2):
        bench.observed(after_ns=MS, upstream_ns=MS)
        bench.flush()
        assert wait_until(lambda: bool(bench.traces._spans.fates), 10)
    otlp.status = 200
    bench.hit()
    bench.close()
    assert (bench.counted("failed"), bench.counted("exported")) == (2, 1)
    (line,) = said.calls
    assert (line.method_name, line.args) == ("warning", ("traces cannot be exported",))
    assert "400" in line.kwargs["detail"]


def test_a_receiver_that_does_not_answer(otlp: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spans are left out, no more than the SDK's queue holds wait, and the worker ends in time."""
    said = CapturingLogger()
    monkeypatch.setattr(traces, "log", said)
    monkeypatch.setattr(traces, "CLOSE_S", CLOSE_S)
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "20")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "10")
    otlp.status = None
    bench = Bench()
    for _ in range(15):
        bench.observed(after_ns=MS, upstream_ns=MS)
    bench.flush()
    began_s = time.monotonic()
    bench.close()
    assert time.monotonic() - began_s < CLOSE_S + 2  # the rest is this machine's
    assert bench.counted("overflow") == 5 and bench.counted("exported") == 0
    assert [line.args for line in said.calls] == [("the last traces could not be exported in time",)]


def test_what_is_wrong_is_said_at_the_start(otlp: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    on, off = load(None, {}, {"traces.sample": "1"}), load(None, {}, {})
    traces.check(on)
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "many")
    with pytest.raises(ConfigError, match="traces.sample: .* OTEL_.* 'many'"):
        traces.check(on)
    traces.check(off)
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    traces.check(on)
    assert traces.opened(on, 0, WorkerMetrics()) is None
    assert traces.opened(off, 0, WorkerMetrics()) is None
