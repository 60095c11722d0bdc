"""OpenTelemetry's spans of calls, made and exported by its SDK.

Job: make the spans of a recorded call, hand them to the SDK, and report what became of them. The SDK exports them by
OTLP over HTTP in a thread of its own. Must not know: which calls are traced (traces.py), connections, the loop.

A call is one trace: a span of kind SERVER from the complete request to the last byte of the reply, and, if the request
was sent to a metastore, a child of kind CLIENT that ends with the metastore's answer. Thrift has no place for the
context of a client's trace, so no span has a parent outside. The names of the attributes are those of OpenTelemetry's
conventions for RPC where these have one, else they begin with `hms_proxy`.
Needs the extra `otel`. Owner: the worker's event loop; `_Told` and `_SdkWarnings` are called in the SDK's thread.
"""

from __future__ import annotations

import logging
import os
import socket
from collections import deque
from collections.abc import Sequence
from threading import Thread
from time import monotonic
from typing import Final, Literal, NamedTuple

import structlog
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.environment_variables import OTEL_BSP_MAX_QUEUE_SIZE
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, set_span_in_context

from hms_cache_proxy import __version__
from hms_cache_proxy.server.access_lines import LoggedCall, Waiting, call_of, object_of, user_of

SERVICE: Final = "ThriftHiveMetastore"
QUEUE_SPANS: Final = 2048  # the SDK's own default of OTEL_BSP_MAX_QUEUE_SIZE
SAY_INTERVAL_S: Final = 60.0
ENDING: Final = "end of traces"
"""The thread that exports the last ones."""

Attributes = dict[str, str | int | float]

log = structlog.get_logger()


class Fate(NamedTuple):
    """What became of some spans; `calls`: how many of them are those of whole calls."""

    result: Literal["exported", "failed"]
    calls: int
    spans: int


class SpanMaker:
    """Makes spans, and has them exported. ValueError if a variable of the SDK has a wrong value."""

    def __init__(self, worker: int, *, show_users: bool) -> None:
        self.fates: deque[Fate] = deque()
        self.most = int(os.environ.get(OTEL_BSP_MAX_QUEUE_SIZE) or QUEUE_SPANS)
        """As many spans may be on their way: the SDK would drop others."""
        self._show_users = show_users
        exporter = _Told(OTLPSpanExporter(), self.fates)
        processor = BatchSpanProcessor(exporter, max_queue_size=self.most)
        self._provider = TracerProvider(ALWAYS_ON, _resource(worker), shutdown_on_exit=False)
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("hms_cache_proxy", __version__)
        self._logger = logging.getLogger("opentelemetry")
        self._handler = _SdkWarnings()
        self._logger.addHandler(self._handler)
        self._logger.propagate = False

    def make(self, waiting: Waiting, share: float, offset_ns: int) -> int:
        """Hand over the spans of a call, and return their number; it stands for 1/`share` calls. `offset_ns`: of the
        wall clock to the monotonic one."""
        call = call_of(waiting)
        began_ns = waiting.arrived_ns + offset_ns
        ended_ns = began_ns + waiting.took_ns
        span = self._begin(call, SpanKind.SERVER, self._attributes(waiting, call, share), began_ns)
        spans = 1
        if call.asked_ns:
            asked_ns = call.asked_ns + offset_ns
            child = self._begin(call, SpanKind.CLIENT, _named(call), asked_ns, span)
            if not call.upstream_ns:
                child.set_status(Status(StatusCode.ERROR, "no answer"))
            child.end(min(asked_ns + call.upstream_ns, ended_ns) if call.upstream_ns else ended_ns)
            spans += 1
        if call.outcome == "error":
            span.set_status(Status(StatusCode.ERROR, call.reason))
            span.set_attribute("error.type", call.reason)
        span.end(ended_ns)
        return spans

    def _begin(
        self, call: LoggedCall, kind: SpanKind, attributes: Attributes, began_ns: int, parent: Span | None = None
    ) -> Span:
        context = None if parent is None else set_span_in_context(parent)
        name = f"{SERVICE}/{call.label}"
        return self._tracer.start_span(name, context, kind, attributes, start_time=began_ns)

    def _attributes(self, waiting: Waiting, call: LoggedCall, share: float) -> Attributes:
        found = _named(call)
        found["hms_proxy.outcome"] = call.outcome
        if call.reason:
            found["hms_proxy.reason"] = call.reason
        name, _ = object_of(call.label, waiting.head, call.body, complete=call.complete)
        if name is not None:
            found["hms_proxy.object"] = name
        found["hms_proxy.reply_bytes"] = waiting.reply_bytes
        if share < 1:
            found["hms_proxy.sample"] = share
        host, _, port = waiting.peer.rpartition(":")
        if host:
            found["client.address"], found["client.port"] = host, int(port)
        user = user_of(waiting.identity) if self._show_users else None
        if user is not None:
            found["user.name"] = user
        return found

    def close(self, timeout_s: float) -> None:
        """Export what waits, for so long at most. What is exported later is lost with the process."""
        ending = Thread(target=self._provider.shutdown, name=ENDING, daemon=True)
        ending.start()
        ending.join(timeout_s)
        self._logger.removeHandler(self._handler)
        self._logger.propagate = True


class _Told(SpanExporter):
    """An exporter that also tells what became of spans."""

    def __init__(self, exporter: SpanExporter, fates: deque[Fate]) -> None:
        self._exporter = exporter
        self._fates = fates

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        calls = sum(span.kind is SpanKind.SERVER for span in spans)
        self._fates.append(Fate("exported" if result is SpanExportResult.SUCCESS else "failed", calls, len(spans)))
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()


class _SdkWarnings(logging.Handler):
    """What the SDK says becomes a line of the log once a minute: it says something for each batch that fails."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._said_s = -SAY_INTERVAL_S

    def emit(self, record: logging.LogRecord) -> None:
        now_s = monotonic()
        if now_s - self._said_s >= SAY_INTERVAL_S:
            self._said_s = now_s
            log.warning("traces cannot be exported", detail=record.getMessage())


def _named(call: LoggedCall) -> Attributes:
    return {"rpc.system": "thrift", "rpc.service": SERVICE, "rpc.method": call.label}


def _resource(worker: int) -> Resource:
    """What all spans of this worker come from; OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES take precedence."""
    host = socket.gethostname()
    own = {
        "service.name": "hms-cache-proxy",
        "service.version": __version__,
        "service.instance.id": f"{host}/{worker}",
        "host.name": host,
    }
    return Resource.create(own).merge(OTELResourceDetector().detect())
