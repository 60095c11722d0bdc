"""A receiver of traces: OTLP over HTTP, in this process. Keeps the spans of the requests that it accepts."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

Values = dict[str, Any]


@dataclass
class Received:
    """One span. `trace`, `id` and `parent` are bytes; `parent` is empty in a span without one."""

    span: Span
    attributes: Values
    resource: Values

    @property
    def ns(self) -> int:
        return self.span.end_time_unix_nano - self.span.start_time_unix_nano


@dataclass
class Receiver:
    """`status`: how requests are answered from now on; None: not at all, until the receiver ends."""

    status: int | None = 200
    spans: list[Received] = field(default_factory=list)
    paths: set[str] = field(default_factory=set)
    headers: list[dict[str, str]] = field(default_factory=list)
    port: int = 0
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    def environment(self) -> dict[str, str]:
        """What the SDK needs to send here, soon."""
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self.port}", "OTEL_BSP_SCHEDULE_DELAY": "200"}

    def of(self, method: str) -> list[Received]:
        """The spans of calls to a method, without those of the metastore's time."""
        return [
            one
            for one in self.spans
            if one.attributes["rpc.method"] == method and one.span.kind == Span.SpanKind.SPAN_KIND_SERVER
        ]

    def children(self, parent: Received) -> list[Received]:
        return [
            one
            for one in self.spans
            if (one.span.trace_id, one.span.parent_span_id) == (parent.span.trace_id, parent.span.span_id)
        ]

    def take(self, path: str, headers: dict[str, str], body: bytes) -> int | None:
        if self.status == 200:
            request = ExportTraceServiceRequest.FromString(
                gzip.decompress(body) if headers.get("Content-Encoding") == "gzip" else body
            )
            self.paths.add(path)
            self.headers.append(headers)
            for group in request.resource_spans:
                for scope in group.scope_spans:
                    for span in scope.spans:
                        self.spans.append(Received(span, values(span.attributes), values(group.resource.attributes)))
        return self.status


def values(pairs: Any) -> Values:
    def value(pair: KeyValue) -> Any:
        kind = pair.value.WhichOneof("value")
        assert kind is not None
        return getattr(pair.value, kind)

    return {pair.key: value(pair) for pair in pairs}


@contextmanager
def receiver() -> Iterator[Receiver]:
    """A receiver, until the block ends."""
    one = Receiver()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status = one.take(self.path, dict(self.headers), body)
            if status is None:
                one.ended.wait()
                self.close_connection = True
                return
            answer = ExportTraceServiceResponse().SerializeToString() if status == 200 else b""
            self.send_response(status)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            """Nothing is printed."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    one.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield one
    finally:
        one.ended.set()
        server.shutdown()
        thread.join()
        server.server_close()
