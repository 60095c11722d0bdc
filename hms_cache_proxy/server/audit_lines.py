"""One line of the audit log: a call, a login, or something that was refused.

Job: write what was recorded as JSON. The objects come from the request, by the rules of the method table; the number of
partitions or the exception comes from the beginning of the reply. docs/audit.md describes the lines. Must not know:
files, the loop.
Invariants: a line has no arguments of the request but names of catalogs, databases and tables, and nothing of the reply
but a number or the name of an exception. Tokens, passwords and other values never appear.
Owner: the worker's event loop.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from time import monotonic_ns, time_ns
from typing import Final, Literal, NamedTuple

from hms_cache_proxy.cache import targets
from hms_cache_proxy.errors import WireError
from hms_cache_proxy.methods.method_plan import plan
from hms_cache_proxy.methods.protection import REFUSALS
from hms_cache_proxy.methods.token_calls import BLOCKED
from hms_cache_proxy.server.access_lines import dotted, say_when, user_of
from hms_cache_proxy.wire import facts, spec
from hms_cache_proxy.wire.message import NEED_MORE, MessageType, parse_header

REQUEST_BYTES: Final = 16 << 10  # of a request, whose names are read
REPLY_BYTES: Final = 128  # of a reply: a header, and the number of elements of the first list
MOST_OBJECTS: Final = 100  # in one line
REMEMBERED_BYTES: Final = 512  # a longer request is read again each time
REMEMBERED: Final = 10_000
REFUSED: Final = REFUSALS | {BLOCKED, "no_write_id"}
"""Reasons of errors that are refusals of the proxy; other errors are failures."""
_OBJECTS: Final = frozenset(
    {
        *(targets.TABLE_KIND, targets.DATABASE_KIND, targets.TABLES_KIND, targets.DATABASES_KIND),
        *(targets.MEMBERS_KIND, targets.RIGHTS_KIND),
    }
)
"""Kinds of targets that name an object."""
_TYPES: Final = {"list<Partition>": "list", "Partition": "one"}

AuditKind = Literal["login", "login_refused", "request_refused", "connection_refused"]


class AuditedCall(NamedTuple):
    """A call. `message`: the first REQUEST_BYTES of the request; `reply`: the first REPLY_BYTES of the reply."""

    arrived_ns: int
    peer: str
    transport: str
    known_by: str
    identity: bytes | None
    message: bytes
    complete: bool
    reply: bytes
    outcome: str
    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class AuditedEvent:
    """Something else, with what its line says."""

    at_ns: int
    event: AuditKind
    details: Mapping[str, str | int | None]


class AuditLines:
    """Makes lines."""

    def __init__(self) -> None:
        self._offset_ns = 0
        self._objects: dict[bytes, str] = {}
        self._whos: dict[tuple[str, str, str, bytes | None], str] = {}

    def begin(self) -> None:
        """Before lines of about the same time."""
        self._offset_ns = time_ns() - monotonic_ns()
        for remembered in (self._objects, self._whos):
            if len(remembered) > REMEMBERED:
                remembered.clear()

    def line(self, item: AuditedCall | AuditedEvent) -> str:
        """The line, with its line end."""
        if isinstance(item, AuditedEvent):
            return f"{self._begun(item.at_ns, item.event)},{json.dumps(item.details)[1:]}\n"
        call = item
        header = parse_header(call.message)
        assert header is not NEED_MORE, "a request whose header was read"
        method = header.name.decode("ascii", "replace")
        refused = call.outcome == "error"
        outcome = call.outcome if call.outcome == "hit" else "relayed"
        came = ""
        if refused:
            outcome = "refused" if call.reason in REFUSED else "error"
        else:
            came = _came_back(method, call.reply)
        named = self._named(method, call, header.body)
        who = call.peer, call.transport, call.known_by, call.identity
        return (
            f'{self._begun(call.arrived_ns, "call")},"method":{json.dumps(method)},{named}'
            f',"outcome":"{outcome}","reason":"{call.reason}"{came}{self._whos.get(who) or self._say_who(who)}'
        )

    def gap(self, lines: Mapping[str, int]) -> str:
        """Lines that say how many are missing here."""
        now_ns = monotonic_ns()
        return "".join(
            f'{self._begun(now_ns, "lines_missing")},"lines":{number},"why":"{why}"}}\n'
            for why, number in sorted(lines.items())
        )

    def _begun(self, at_ns: int, event: str) -> str:
        return f'{say_when((at_ns + self._offset_ns) // 1_000_000)}"event":"{event}"'

    def _say_who(self, who: tuple[str, str, str, bytes | None]) -> str:
        peer, transport, known_by, identity = who
        user = user_of(identity)
        by = known_by or (None if user is None else "set_ugi")
        details = {"client": peer, "transport": transport, "user": user, "user_by": by}
        said = self._whos[who] = f",{json.dumps(details, separators=(',', ':'))[1:]}\n"
        return said

    def _named(self, method: str, call: AuditedCall, body: int) -> str:
        short = len(call.message) <= REMEMBERED_BYTES
        key = call.message[: body - 4] + call.message[body:] if short else b""  # without its sequence id
        said = self._objects.get(key) if short else None
        if said is None:
            said = _say_objects(objects_of(method, call.message, body, complete=call.complete))
            if short:
                self._objects[key] = said
        return said


def _say_objects(objects: list[str]) -> str:
    more = f',"more_objects":{len(objects) - MOST_OBJECTS}' if len(objects) > MOST_OBJECTS else ""
    return f'"objects":{json.dumps(objects[:MOST_OBJECTS])}{more}'


def objects_of(method: str, message: bytes, body: int, *, complete: bool) -> list[str]:
    """The objects that a request names: tables; databases of which it names no table; catalogs of which it names
    nothing else. `*`: it may be about everything."""
    found = plan(method.encode())
    if found is None:
        return ["*"]
    names: dict[tuple[bytes, ...], None] = {}
    for target in found.named(message, body, complete=complete):
        if target in (targets.ALL, targets.UNKNOWN):
            return ["*"]
        if targets.kind_of(target) in _OBJECTS:
            names[tuple(targets.names_in(target))] = None
    above = {name[:length] for name in names for length in range(1, len(name))}
    return [dotted(name) for name in names if name not in above]


def _came_back(method: str, reply: bytes) -> str:
    partitions, exception = came_back(method, reply)
    if exception is not None:
        return f',"exception":"{exception}"'
    return "" if partitions is None else f',"partitions":{partitions}'


def came_back(method: str, reply: bytes) -> tuple[int | None, str | None]:
    """From the beginning of a reply: how many partitions, or names of partitions, it has, or which exception it is;
    None where it has neither, or cannot be read."""
    try:
        header = parse_header(reply)
    except WireError:
        return None, None
    if header is NEED_MORE or len(reply) <= header.body or header.name != method.encode():
        return None, None
    if header.type is MessageType.EXCEPTION:
        return None, "TApplicationException"
    if method not in facts.METHODS or reply[header.body] == spec.TType.STOP:
        return None, None
    field = int.from_bytes(reply[header.body + 1 : header.body + 3], "big")
    if field:
        return None, next((row.type for row in facts.METHODS[method].result if row.id == field), "unknown")
    return _counted(reply, header.body, *_shape(method)), None


def _counted(reply: bytes, at: int, shape: str | None, wrapped: bool) -> int | None:
    """The elements of the value whose field begins at `at`."""
    if shape is None:
        return None
    if wrapped:
        at += 3  # into the struct
        if len(reply) <= at:
            return None
        if reply[at] == spec.TType.STOP or reply[at + 1 : at + 3] != b"\0\1":
            return 0  # an absent field
    if shape == "one":
        return 1
    size = reply[at + 4 : at + 8]
    return int.from_bytes(size, "big") if len(size) == 4 else None


@cache
def _shape(method: str) -> tuple[str | None, bool]:
    """Where a method's reply has partitions, and whether that is within a struct. (None, False): nowhere, or where they
    are not counted (PartitionSpec)."""
    returned = next((row.type for row in facts.METHODS[method].result if row.id == 0), "")
    if returned == "list<string>" and "partition_names" in method:
        return "list", False
    if returned == "GetPartitionNamesPsResponse":
        return "list", True
    if returned in _TYPES or returned not in facts.STRUCTS:
        return _TYPES.get(returned), False
    first = next((row.type for row in facts.fields(returned) if row.id == 1), "")
    return _TYPES.get(first), True
