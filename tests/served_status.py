"""A proxy's HTTP server without its children: which paths it has, and what it answers to /status.

Job: `served(directory)` starts the server on both addresses, in TTL mode and with a recording, so that no part of
/status is left out but `peers`. Must not know: what the documents say of it.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from aiohttp import ClientSession

from hms_cache_proxy.cache.state import StatePage
from hms_cache_proxy.cache.ttl import TtlCache, bounds_of
from hms_cache_proxy.config import Address, Config, paths
from hms_cache_proxy.config.ttl import TtlSection
from hms_cache_proxy.consistency.processes import started
from hms_cache_proxy.metrics import SupervisorMetrics
from hms_cache_proxy.recording import start as recordings
from hms_cache_proxy.status.flush import Flusher
from hms_cache_proxy.status.http import HttpServer
from hms_cache_proxy.status.probe import UpstreamProbe
from hms_cache_proxy.status.view import ProxyView, SharedFiles


class Served(NamedTuple):
    """Paths of both addresses; the JSON object of /status."""

    paths: set[str]
    status: dict[str, Any]


async def served(directory: Path) -> Served:
    """Once."""
    ttl, recording = TtlSection(enabled=True), str(directory / "recording")
    config = Config(data_dir=str(directory), ttl=ttl, record=recording, upstream=(Address("127.0.0.1", 1),))
    http, admin = (socket.create_server(("127.0.0.1", 0)) for _ in range(2))
    with (
        StatePage(paths.state(config), create=True) as page,
        closing(TtlCache.create(paths.ttl(config), bounds_of(ttl), started)) as cache,
        closing(recordings.begin(config)) as file,
    ):
        view = ProxyView(
            config,
            SharedFiles(page, cache, file),
            children=[],
            metrics=SupervisorMetrics(directory, "1"),
            probe=UpstreamProbe(config),
            flusher=Flusher(config, page, None, cache),
        )
        async with HttpServer(config, view, http=[http], admin=[admin]) as server, ClientSession() as client:
            applications = [runner.app for runner in server._runners]
            async with client.get("http://{}:{}/status".format(*http.getsockname())) as answer:
                status = await answer.json()
    return Served({one.canonical for application in applications for one in application.router.resources()}, status)


def keys_of(value: object) -> Iterator[str]:
    """Also of what is inside."""
    if isinstance(value, dict):
        yield from value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from keys_of(inner)
