"""Requests to the HTTP addresses of a running proxy, for `hms-cache-proxy status` and `flush`.

Job: send one request, and print the answer. Must not know: how the proxy finds its answers.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Set
from typing import Any, NoReturn

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from hms_cache_proxy.errors import ProxyError
from hms_cache_proxy.plurals import counted, listed
from hms_cache_proxy.status import words

WATCH_INTERVAL_S = 5.0  # as often as the proxy looks at its counters
TOP_MISSES = 5
STYLES = {"good": "green", "warn": "yellow", "bad": "red"}
TIMEOUT_S = 10.0  # a flush waits up to 5 s for its reload
OF_STATUS, OF_FLUSH = {"version", "ready", "banner"}, {"targets", "ticket", "done"}
"""Keys by which a proxy's answer is known: many servers have a /status."""


def get_status(url: str) -> dict[str, Any]:
    """The object of /status; ProxyError if no proxy answers."""
    return _ask(url, "/status", "GET", {}, "the proxy's `http` address (--url or HMS_CACHE_PROXY_URL)", OF_STATUS)


def post_flush(url: str, query: Mapping[str, str], token: str) -> dict[str, Any]:
    """Ask for a reload; the answer has `targets`, `ticket` and `done`."""
    path = "/admin/flush?" + urllib.parse.urlencode(query)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    wanted = "the proxy's `admin.listen` address (--url or HMS_CACHE_PROXY_ADMIN_URL)"
    return _ask(url, path, "POST", headers, wanted, OF_FLUSH)


def _ask(url: str, path: str, method: str, headers: dict[str, str], wanted: str, keys: Set[str]) -> dict[str, Any]:
    """The object in the answer, with these keys. `wanted`: the address to use, and where to give it."""
    if not url.startswith(("http://", "https://")):
        raise ProxyError(f"{url!r} is not http://HOST:PORT; give {wanted}")
    try:
        target = urllib.parse.urljoin(url, path)
    except ValueError as error:  # brackets without an address
        raise ProxyError(f"{url!r} is not http://HOST:PORT ({error}); give {wanted}") from error
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # http_proxy is meant for other addresses
    try:
        request = urllib.request.Request(target, method=method, headers=headers)
        with opener.open(request, timeout=TIMEOUT_S) as response:
            answer = json.load(response)
    except urllib.error.HTTPError as error:
        raise ProxyError(f"{target}: {_error_text(error, wanted)}") from error
    except (urllib.error.URLError, http.client.HTTPException, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise ProxyError(f"{target}: no answer from a proxy: {reason}; is this {wanted}?") from error
    if not isinstance(answer, dict) or not keys <= answer.keys():
        raise ProxyError(f"{target}: this is not a proxy's answer; is this {wanted}?")
    return answer


def _error_text(error: urllib.error.HTTPError, wanted: str) -> str:
    try:
        return str(json.loads(error.read())["error"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP {error.code}; is this {wanted}?"


def print_status(url: str, answer: Mapping[str, Any]) -> None:
    """/status as a table."""
    Console().print(_status_table(url, answer))


def watch_status(url: str) -> NoReturn:
    """The table, again and again, until Ctrl-C. A proxy that does not answer may come back."""
    console = Console()
    with Live(console=console, auto_refresh=False) if console.is_terminal else contextlib.nullcontext() as live:
        while True:
            try:
                shown: Table | Text = _status_table(url, get_status(url))
            except ProxyError as error:
                shown = Text(str(error), style="red")
            if live is None:  # not a terminal: one below the other
                console.print(shown)
            else:
                live.update(shown, refresh=True)
            time.sleep(WATCH_INTERVAL_S)


def _status_table(url: str, answer: Mapping[str, Any]) -> Table:
    title = Text(f"hms-cache-proxy {answer['version']} at {url}", style="table.title")
    table = Table(title=title, show_header=False, title_justify="left")
    table.add_column(style="bold")
    table.add_column()
    for label, value in _rows(answer):
        table.add_row(label, Text(value) if isinstance(value, str) else value)  # [fd00::1] would be markup
    return table


def _rows(answer: Mapping[str, Any]) -> list[tuple[str, Any]]:
    prewarm, objects, upstream = answer["prewarm"], answer["objects"], answer["upstream"]
    workers, confirmed = answer["workers"], answer["confirmed_ms_ago"]
    total = prewarm["tables_total"]
    reachable = {True: "reachable", False: "NOT reachable", None: "not asked yet"}[upstream["reachable"]]
    asked = f"{upstream['uri']} version {upstream['version'] or '?'}, {reachable}"
    said = answer["banner"]
    rows: list[tuple[str, Any]] = [
        ("state", Text(f"{said['text']} {said['advice']}".rstrip(), style=STYLES[said["level"]])),
        ("ready", "yes" if answer["ready"] else f"NO, {answer['not_ready']}"),
        ("mode", f"{answer['mode']} ({answer['mode_text']})"),
        ("recording", upstream["uri"]) if answer["mode"] == "replay" else ("metastore", asked),
        ("event", f"{answer['cursor_event_id']} of {answer['upstream_event_id']}"),
        ("confirmed", "never" if confirmed is None else f"{confirmed} ms ago"),
        (
            "prewarm",
            f"{'done' if prewarm['done'] else 'running'}, {prewarm['tables_done']} of {counted(total, 'table')}",
        ),
    ]
    if total and not prewarm["done"]:
        rows.append(("", ProgressBar(total=total, completed=prewarm["tables_done"], width=40)))
    return [
        *rows,
        *_recording_rows(answer["recording"]),
        *_ttl_rows(answer["ttl"]),
        ("objects", words.objects(objects)),
        ("cache", f"{_mib(answer['cache_bytes'])} of at most {_mib(answer['cache_max_bytes'])}"),
        *_call_rows(answer["calls"]),
        ("workers", f"{workers['running']} of {workers['wanted']}, {counted(workers['restarts'], 'restart')}"),
    ]


def _mib(size: int) -> str:
    return f"{size / (1 << 20):,.1f} MiB"


def _call_rows(calls: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Hits, misses and their ratio; what else there was; why there were misses."""
    rate = "" if calls["per_second"] is None else f", {calls['per_second']:,.0f} a second"
    ratio = (
        "no reads yet" if calls["hit_ratio"] is None else f"{calls['hit_ratio']:.1%} of the cacheable reads are hits"
    )
    others = listed({kind: calls[kind] for kind in ("relays", "writes", "errors")})
    saved = f"at least {calls['seconds_saved']:,.1f} s of the metastore's time" if calls["seconds_saved"] else ""
    misses = [one for one in calls["reasons"] if one["outcome"] == "miss"]
    return [
        ("calls", f"{calls['total']:,}{rate}"),
        ("reads", f"{counted(calls['hits'], 'hit')}, {counted(calls['misses'], 'miss', 'misses')}: {ratio}"),
        ("others", others),
        *([("saved", saved)] if saved else []),
        *(
            ("" if number else "misses", f"{one['calls']:,} {one['words']} ({one['reason']})")
            for number, one in enumerate(misses[:TOP_MISSES])
        ),
    ]


def _recording_rows(recording: Mapping[str, Any] | None) -> list[tuple[str, Any]]:
    if recording is None:
        return []
    left = "until it is stopped" if recording["left_s"] is None else f"for {recording['left_s']:,.0f} s more"
    size = f"{counted(recording['results'], 'result')}, {recording['bytes'] / (1 << 20):,.1f} MiB"
    return [("recording", f"{recording['file']}: {size}, {left if recording['active'] else 'has stopped'}")]


def _ttl_rows(kinds: Mapping[str, Any] | None) -> list[tuple[str, Any]]:
    sizes = [(kind, size["entries"], size["bytes"]) for kind, size in (kinds or {}).items() if size["entries"]]
    text = ", ".join(f"{entries:,} {kind} ({count / 1024:,.1f} KiB)" for kind, entries, count in sizes)
    return [("ttl cache", text or "nothing")] if kinds is not None else []
