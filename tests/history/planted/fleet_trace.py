"""Writes down what the members of a fleet do: the calls of `Fleet`, its commands, and what is recorded for peers.

`watch(events)` changes the classes of this process; the product knows nothing of it. An event is (time, incarnation,
kind, arguments): the time is that of CLOCK_BOOTTIME, which is one for all processes of a machine. Messages are
[kind, numbers ...], a write is [incarnation, number]. tests/peers/pair_replay.py reads them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import wraps
from time import CLOCK_BOOTTIME, clock_gettime_ns
from typing import Any

Event = tuple[int, str, str, list[Any]]


def told(message: Any) -> list[Any]:
    """A message, as it is written down."""
    values = [getattr(message, name) for name in type(message).__dataclass_fields__]
    plain = [value.hex() if isinstance(value, bytes) else value for value in values if not isinstance(value, tuple)]
    return [type(message).__name__, *plain]


def before(owner: Any, name: str, act: Callable[..., None]) -> None:
    """Call `act` with the arguments, then what is there."""
    real = getattr(owner, name)

    @wraps(real)
    def both(*arguments: Any, **named: Any) -> Any:
        act(*arguments, **named)
        return real(*arguments, **named)

    setattr(owner, name, both)


def after(owner: Any, name: str, act: Callable[..., None]) -> None:
    """Call what is there, then `act` with the result and the arguments."""
    real = getattr(owner, name)

    @wraps(real)
    def both(*arguments: Any, **named: Any) -> Any:
        result = real(*arguments, **named)
        act(result, *arguments)
        return result

    setattr(owner, name, both)


class Watch:
    """The hooks. `say` is told of each event."""

    def __init__(self, say: Callable[[str, str, list[Any]], None]) -> None:
        self.say = say

    def fleet(self, owner: Any) -> None:
        """`owner`: Fleet, or a class of it."""

        def of(kind: str) -> Callable[..., None]:
            def act(fleet: Any, *arguments: Any, **_named: Any) -> None:
                shown = [value.hex() if isinstance(value, bytes) else value for value in arguments]
                self.say(fleet._own.incarnation.hex(), kind, shown)

            return act

        def received(fleet: Any, link: int, message: Any, now_ns: int) -> None:
            fleet.traced_ns = now_ns
            if link in fleet._heard_ns:
                self.say(fleet._own.incarnation.hex(), "received", [link, told(message)])

        def began(_: None, fleet: Any, *_arguments: Any) -> None:
            fleet.traced_ns, fleet.traced_required = 0, None
            self.say(fleet._own.incarnation.hex(), "began", [])

        after(owner, "__init__", began)
        for name in ("dialled", "accepted", "closed"):
            before(owner, name, of(name))
        before(owner, "stop", lambda fleet, now_ns: setattr(fleet, "traced_ns", now_ns))
        before(owner, "received", received)
        after(owner, "take", self._commands)

    def _commands(self, commands: list[Any], fleet: Any) -> None:
        own, required = fleet._own.incarnation.hex(), fleet.roster.required()
        if required != fleet.traced_required:
            fleet.traced_required = required
            self.say(own, "requires", sorted(one.hex() for one in required if one is not None))
        for command in commands:
            if type(command).__name__ == "SendToPeer":
                self.say(own, "sent", [command.link, told(command.message), fleet.traced_ns])
            elif type(command).__name__ == "ServeUntil":
                self.say(own, "serves", [command.until_ns])

    def link(self, owner: Any, incarnation: Callable[[Any], str]) -> None:
        """`owner`: PeersLink, the worker's end."""

        def asked(link: Any, request: Any, _answered: Any) -> None:
            if request.kind.name == "WRITE" and request.number:
                self.say(incarnation(link), "raised", [request.number])

        def answered(link: Any, token: int, _by: str) -> None:
            question = link._waiting.get(token)
            if question is not None and question.request.kind.name == "WRITE" and question.request.number:
                self.say(incarnation(link), "goes", [question.request.number])

        before(owner, "ask", asked)
        before(owner, "_answer", answered)


def start(path: str) -> None:
    """In a process of a real proxy: into `path`, a file for each process."""
    from hms_cache_proxy.cache.state import Slot
    from hms_cache_proxy.consistency.fences import FenceStore
    from hms_cache_proxy.consistency.peer_fences import PeerFences
    from hms_cache_proxy.peers.driver import PeersProcess
    from hms_cache_proxy.peers.fleet import Fleet
    from hms_cache_proxy.server.peers_link import PeersLink

    def say(incarnation: str, kind: str, arguments: list[Any], at_ns: int = 0) -> None:
        event = [at_ns or clock_gettime_ns(CLOCK_BOOTTIME), incarnation, kind, arguments]
        with open(f"{path}.{os.getpid()}", "a") as file:
            file.write(json.dumps(event) + "\n")

    watch = Watch(say)
    watch.fleet(Fleet)
    watch.link(PeersLink, lambda link: page_incarnation(link._page, Slot.INCARNATION))

    def opened(process: Any, wire: Any, incarnation: bytes) -> None:
        keys = sorted(key.hex() for key in (wire._greeted.frames._own, wire._greeted.frames._others))
        say(process.incarnation.hex(), "link", [wire.link, keys[0][:16]])

    def held(fences: Any, via: bytes, origin: Any, _targets: Any) -> None:
        say(fences._incarnation.hex(), "holds", [via.hex(), origin.incarnation.hex(), origin.number])

    def released(fences: Any, via: bytes, origin: Any, **_how: Any) -> None:
        say(fences._incarnation.hex(), "releases", [via.hex(), origin.incarnation.hex(), origin.number])

    def over(fences: Any, number: int, **_how: Any) -> None:
        say(page_incarnation(fences.page, Slot.INCARNATION), "over", [number])

    before(PeersProcess, "opened", opened)
    before(FenceStore, "finish", over)
    before(FenceStore, "cancel", over)
    before(PeerFences, "hold", held)
    before(PeerFences, "release", released)


def page_incarnation(page: Any, slot: int) -> str:
    """Of the proxy whose page this is."""
    return f"{page[slot]:016x}{page[slot + 1]:016x}"
