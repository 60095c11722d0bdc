"""The HTTP server: /metrics, /healthz, /readyz, /status, /history and the status page; /admin/flush on a separate
address.

Job: turn requests into calls of a `View`, which `view.ProxyView` implements, and their results into HTTP. It must not
know where the facts come from. No request to the public address changes anything; the admin address is loopback unless
the operator has set a token. Runs on the supervisor's event loop; slow calls run in a thread.
"""

from __future__ import annotations

import asyncio
import hmac
import socket
from collections.abc import Sequence
from importlib import resources
from typing import Protocol

from aiohttp import web
from aiohttp.typedefs import Handler

from hms_cache_proxy.config import Config
from hms_cache_proxy.errors import CacheError

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PAGE_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'"
_FLUSH_KEYS = {"catalog", "db", "table", "partition"}


class View(Protocol):
    """What HTTP needs of the proxy. `metrics` and `flush` run in a thread; the other methods do not block."""

    def status(self) -> dict[str, object]:
        """The JSON object of /status; its keys are documented in docs/operations.md."""

    def told_history(self) -> dict[str, object]:
        """The JSON object of /history."""

    def not_ready(self) -> str | None:
        """Why /readyz answers 503; None if it answers 200."""

    def metrics(self) -> bytes:
        """/metrics in the text format."""

    def flush(self, catalog: str, database: str | None, table: str | None, partition: str | None) -> dict[str, object]:
        """Have the named objects reloaded (None = all). Until that is done, reads of them go upstream."""


class HttpServer:
    """A context manager that serves both addresses, on sockets that are already bound."""

    def __init__(
        self, config: Config, view: View, *, http: Sequence[socket.socket], admin: Sequence[socket.socket]
    ) -> None:
        self._config = config
        self._view = view
        self._http, self._admin = http, admin
        self._runners: list[web.AppRunner] = []

    async def __aenter__(self) -> HttpServer:
        try:
            await self._listen(self._public(), self._http)
            await self._listen(self._administration(), self._admin)
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_error: object) -> None:
        for runner in reversed(self._runners):
            await runner.cleanup()

    async def _listen(self, app: web.Application, sockets: Sequence[socket.socket]) -> None:
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        self._runners.append(runner)
        await runner.setup()
        for bound in sockets:
            await web.SockSite(runner, bound).start()

    def _public(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/", self._get_page)
        app.router.add_get("/status", self._get_status)
        app.router.add_get("/history", self._get_history)
        app.router.add_get("/metrics", self._get_metrics)
        app.router.add_get("/healthz", self._get_health)
        app.router.add_get("/readyz", self._get_ready)
        return app

    def _administration(self) -> web.Application:
        app = web.Application(client_max_size=4096, middlewares=[self._authorized])
        app.router.add_post("/admin/flush", self._post_flush)
        return app

    async def _get_page(self, _request: web.Request) -> web.Response:
        page = resources.files(__package__).joinpath("page.html").read_text("utf-8")
        headers = {"Content-Security-Policy": _PAGE_POLICY}
        return web.Response(text=page, content_type="text/html", headers=headers)

    async def _get_status(self, _request: web.Request) -> web.Response:
        return web.json_response(self._view.status(), headers={"Cache-Control": "no-store"})

    async def _get_history(self, _request: web.Request) -> web.Response:
        return web.json_response(self._view.told_history(), headers={"Cache-Control": "no-store"})

    async def _get_metrics(self, _request: web.Request) -> web.Response:
        text = await asyncio.to_thread(self._view.metrics)
        return web.Response(body=text, headers={"Content-Type": METRICS_TYPE})

    async def _get_health(self, _request: web.Request) -> web.Response:
        return web.Response(text="alive\n")

    async def _get_ready(self, _request: web.Request) -> web.Response:
        reason = self._view.not_ready()
        return web.Response(text=f"{reason or 'ready'}\n", status=503 if reason else 200)

    @web.middleware
    async def _authorized(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        token = self._config.admin.token
        given = request.headers.get("Authorization", "").encode("utf-8", "surrogateescape")  # as it was decoded
        if token and not hmac.compare_digest(given, f"Bearer {token}".encode()):
            return web.json_response({"error": "a bearer token is required"}, status=401)
        if not token and "Origin" in request.headers:  # a web page in the operator's browser, not the operator
            return web.json_response({"error": "a browser must send a token"}, status=403)
        return await handler(request)

    async def _post_flush(self, request: web.Request) -> web.Response:
        query = request.query
        problem = _flush_problem(dict(query))
        if problem:
            return web.json_response({"error": problem}, status=400)
        try:
            named = query.get("catalog", "hive"), query.get("db"), query.get("table"), query.get("partition")
            result = await asyncio.to_thread(self._view.flush, *named)
        except CacheError as error:
            return web.json_response({"error": str(error)}, status=503)
        return web.json_response(result)


def _flush_problem(query: dict[str, str]) -> str | None:
    unknown = sorted(set(query) - _FLUSH_KEYS)
    if unknown:
        return f"unknown parameter {unknown[0]}; known are {', '.join(sorted(_FLUSH_KEYS))}"
    if "table" in query and "db" not in query:
        return "table needs db"
    if "partition" in query and "table" not in query:
        return "partition needs table"
    if any(not value for value in query.values()):
        return "a parameter is empty"
    return None
