"""One line of the access log.

Job: write a recorded call as JSON. Its object is read from the beginning of the request, by the rules of the method
table. Must not know: files, the loop, replies.

    {"time":"2026-11-22T16:28:18.012Z","method":"get_table","object":"hive.sales.orders","outcome":"hit",
     "reason":"","bytes":2931,"us":14,"client":"10.0.0.7:51022","user":"etl"}

`time` is when the request was complete, `us` the time from then to its reply, `bytes` the length of the reply without a
frame. `object` is `catalog.database.table`, `catalog.database` or `catalog`; null if the call has no such object or it
is unknown. For a call about several tables it is their database, and `tables` is their number. `user` is the name that
the client gave with set_ugi. `sample` is present if it is not 1: the line then stands for 1/sample calls. No other
arguments appear in a line. In the slow log, `metastore_us` is the part of `us` that the metastore took.
Owner: the worker's event loop.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from time import gmtime, monotonic_ns, strftime, time_ns
from typing import NamedTuple

from hms_cache_proxy.cache import targets as target
from hms_cache_proxy.cache.replies import HitLabel
from hms_cache_proxy.methods.method_plan import plan
from hms_cache_proxy.server.inbox import Request
from hms_cache_proxy.upstream.replay import user_named

HEAD_BYTES = 512  # of a request: the names that its rules read come first
USER_CHARACTERS = 128
_LAST = '"us":'
REMEMBERED = 10_000  # clients whose part of a line is kept
_FIXED = 8  # of a message's header, before the name


@dataclass(frozen=True, slots=True, eq=False)
class LoggedCall:
    """A counted call, and where its arguments begin. `complete`: the request is no longer than HEAD_BYTES."""

    label: str
    outcome: str
    reason: str
    body: int
    complete: bool
    upstream_ns: int = 0
    asked_ns: int = 0


class Waiting(NamedTuple):
    """A call without a line so far."""

    arrived_ns: int
    took_ns: int
    reply_bytes: int
    peer: str
    identity: bytes | None
    head: bytes
    """The first HEAD_BYTES of the request."""

    what: HitLabel | LoggedCall


class LineFormatter:
    """Makes lines. Parts that many lines share are made once; a line of a hit then takes half a microsecond."""

    def __init__(self, sample: float, *, upstream: bool = False) -> None:
        """`upstream`: lines say how long the metastore took."""
        self._upstream = upstream
        self._end = "}\n" if sample == 1 else f',"sample":{sample:g}}}\n'
        self._whats: dict[HitLabel, str] = {}
        self._whos: dict[tuple[str, bytes | None], str] = {}
        self._offset_ns = 0
        self._ms = -1
        self._when = ""

    def begin(self) -> None:
        """Before lines of about the same time: read the clock, forget parts that may not be needed again."""
        self._offset_ns = time_ns() - monotonic_ns()
        self._whats.clear()  # these keep the labels of replies alive
        if len(self._whos) > REMEMBERED:
            self._whos.clear()

    def line(self, waiting: Waiting) -> str:
        """The line, with its line end."""
        arrived_ns, took_ns, size, peer, identity, head, what = waiting
        ms = (arrived_ns + self._offset_ns) // 1_000_000
        if ms != self._ms:
            self._ms, self._when = ms, say_when(ms)
        if isinstance(what, HitLabel):
            said = self._whats.get(what) or self._say_hit(what, head, size)
        else:
            said = _say(what, head, size)
            if self._upstream:
                said = f'{said[: -len(_LAST)]}"metastore_us":{what.upstream_ns // 1000},{_LAST}'
        who = self._whos.get((peer, identity)) or self._say_who(peer, identity)
        return f"{self._when}{said}{took_ns // 1000}{who}"

    def _say_hit(self, hit: HitLabel, head: bytes, size: int) -> str:
        said = self._whats[hit] = _say(_call_of_hit(hit, head), head, size)
        return said

    def _say_who(self, peer: str, identity: bytes | None) -> str:
        said = f',"client":{json.dumps(peer)},"user":{json.dumps(user_of(identity))}{self._end}'
        self._whos[peer, identity] = said
        return said


def call_of(waiting: Waiting) -> LoggedCall:
    """The call that waits."""
    what = waiting.what
    return _call_of_hit(what, waiting.head) if isinstance(what, HitLabel) else what


def _call_of_hit(hit: HitLabel, head: bytes) -> LoggedCall:
    return LoggedCall(hit.method, "hit", hit.reason, _FIXED + head[7] + 4, len(head) < HEAD_BYTES)


def say_when(ms: int) -> str:
    """The beginning of a line, whose first key is its time."""
    second, rest = divmod(ms, 1000)
    return f'{{"time":"{strftime("%Y-%m-%dT%H:%M:%S", gmtime(second))}.{rest:03d}Z",'


def _say(call: LoggedCall, head: bytes, size: int) -> str:
    name, tables = object_of(call.label, head, call.body, complete=call.complete)
    several = f',"tables":{tables}' if tables > 1 else ""
    return (
        f'"method":"{call.label}","object":{json.dumps(name)}{several},"outcome":"{call.outcome}"'
        f',"reason":"{call.reason}","bytes":{size},{_LAST}'
    )


def user_of(identity: bytes | None) -> str | None:
    """The user as lines show it: no more than USER_CHARACTERS of the name."""
    name = user_named(identity)
    return None if name is None else name[:USER_CHARACTERS]


def head_of(request: Request) -> tuple[bytes, bool]:
    """What is kept of a request, and whether that is all of it."""
    head = request.message[:HEAD_BYTES]
    return head, request.spool is None and len(head) == len(request.message)


def object_of(method: str, message: bytes, body: int, *, complete: bool) -> tuple[str | None, int]:
    """The object of a request, and how many tables it names (0: unknown, or none)."""
    found = plan(method.encode())
    if found is None:
        return None, 0
    return about(found.named(message, body, complete=complete))


def about(targets: Iterable[bytes]) -> tuple[str | None, int]:
    """The object of these targets, and how many tables are among them."""
    tables: list[list[bytes]] = []
    others: list[list[bytes]] = []
    for one in targets:
        kind = target.kind_of(one)
        if kind == target.TABLE_KIND:
            tables.append(target.names_in(one))
        elif kind in (target.DATABASE_KIND, target.TABLES_KIND, target.DATABASES_KIND):
            others.append(target.names_in(one))
    if len(tables) == 1:
        return dotted(tables[0]), 1
    deepest = max(map(len, others), default=0)
    above = {tuple(table[:2]) for table in tables} or {tuple(other) for other in others if len(other) == deepest}
    return (dotted(above.pop()) if len(above) == 1 else None), len(tables)


def dotted(parts: Iterable[bytes]) -> str:
    """The name of an object: `catalog.database.table`."""
    return ".".join(part.decode("utf-8", "replace") for part in parts)
