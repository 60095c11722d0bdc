"""Traces of a real proxy, at a receiver of OTLP: every counted call, the metastore's time, a receiver that is away."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.otlp import receiver
from tests.proxy import Proxy
from tests.testbed import objects
from tests.testbed.client import MetastoreClient
from tests.testbed.processes import free_port, wait_until
from tests.testbed.raw import RawConnection, encode_call

pytestmark = pytest.mark.real

SECRET = "s3cret-argument"
ALL = {"EMBEDDED": "true", "TRACES_SAMPLE": "1", "TRACES_SAMPLE_HITS": "1"}


def test_every_call_has_a_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with receiver() as otlp:
        for name, value in otlp.environment.items():
            monkeypatch.setenv(name, value)
        proxy = Proxy(tmp_path / "proxy", "", settings=ALL)
        try:
            proxy.start(prewarmed=True)
            with MetastoreClient(*proxy.address) as client:
                client.set_ugi("etl", ["etl"])
                objects.create_database(client, "sales")
                objects.create_table(client, objects.table("sales", "orders", parameters={"note": SECRET}))
            read = encode_call("get_table", "sales", "orders")
            with RawConnection(*proxy.address) as connection:
                connection.call(encode_call("getMetaConf", "metastore.batch.retrieve.max"))

                def hits() -> bool:
                    connection.call(read)
                    return proxy.metric("hms_proxy_requests_total", method="get_table", outcome="hit") >= 3

                assert wait_until(hits)
            counted = {key: int(value) for key, value in proxy.requests().items() if value}
            assert proxy.stop() == 0
        finally:
            proxy.close()
    roots = [one for one in otlp.spans if not one.span.parent_span_id]
    told = [(one.attributes["rpc.method"], one.attributes["hms_proxy.outcome"]) for one in roots]
    reasons = [one.attributes.get("hms_proxy.reason", "") for one in roots]
    assert Counter((*what, reason) for what, reason in zip(told, reasons, strict=True)) >= Counter(counted)
    for one in roots:
        children = otlp.children(one)
        assert len(children) in {"hit": (0,), "miss": (0, 1)}.get(one.attributes["hms_proxy.outcome"], (1,)), one
        for child in children:
            assert one.span.start_time_unix_nano <= child.span.start_time_unix_nano
            assert child.span.end_time_unix_nano <= one.span.end_time_unix_nano and child.ns > 0
    (created,) = otlp.of("create_table")
    assert created.attributes["hms_proxy.object"] == "hive.sales.orders"
    assert created.attributes["client.address"] == "127.0.0.1"
    assert "etl" not in str(otlp.spans) and SECRET not in str(otlp.spans)


def test_a_receiver_that_is_away_costs_traces_and_no_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "200")
    proxy = Proxy(tmp_path / "proxy", "", settings=ALL)
    try:
        proxy.start()
        with RawConnection(*proxy.address) as connection:

            def failed() -> bool:
                assert connection.call(encode_call("get_database", "default"))[3] == 2
                return proxy.metric("hms_proxy_traced_calls_total", result="failed") >= 2

            assert wait_until(failed)
        assert proxy.metric("hms_proxy_traced_calls_total", result="exported") == 0
        assert proxy.stop() == 0
        assert proxy.log.read_text().count("traces cannot be exported") == 1
    finally:
        proxy.close()


def test_off_is_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK's variables alone switch nothing on."""
    with receiver() as otlp:
        for name, value in otlp.environment.items():
            monkeypatch.setenv(name, value)
        proxy = Proxy(tmp_path / "proxy", "", settings={"EMBEDDED": "true"})
        try:
            proxy.start()
            with RawConnection(*proxy.address) as connection:
                connection.call(encode_call("get_database", "default"))
            assert proxy.stop() == 0
        finally:
            proxy.close()
    assert not otlp.spans and not otlp.headers
