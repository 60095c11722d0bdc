"""Points in the processes of a proxy where a play (tests/history/plays.py) can hold them, and the times of its fleet.

`start` reads FLEET_PLAY, a JSON object: `directory`, `times` (fields of FleetTimes, and `last_lease_ns`), `older_s` (by
how much this proxy is older than it is), `says` (the address in its hello, if that is another one than its own). A
process that comes to a point adds a byte to `PORT.NAME.visits` there, with the port on which its proxy serves clients,
and goes on once there is no file `PORT.NAME.closed`. It stands still meanwhile, as if it were stopped. The product has
no code for this.

    worker    leaves        a write may leave, and has not left
              asks          the peers' process is about to be asked or told something: what is held here is lost
              page          the page is about to be asked what need not wait: held here, only the peers' process says it
              replied       the metastore's reply to a write is here, and nothing knows of it
    follower  step_begins   a step begins
              step_reads    a step has read what it will commit
    peers     waits         a write waits: for an acknowledgement, for leases, or because this proxy is young
              fence_sent    a fence is about to be sent to a follower
              leased        a lease has arrived, and reads may be answered by it
              welcomed      a proxy that is followed has welcomed this one; its replay follows
              lifted        ... has said that a write is over, which is recorded
              missed        ... is missed, which is recorded
"""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from fleet_trace import after, before


@cache
def prefix() -> str:
    """Of the files of this process's proxy."""
    port = os.environ["HMS_CACHE_PROXY_LISTEN"].rpartition(":")[2]
    return os.path.join(json.loads(os.environ["FLEET_PLAY"])["directory"], port)


def visit(name: str) -> None:
    """Come to a point."""
    with suppress(OSError), open(f"{prefix()}.{name}.visits", "ab", buffering=0) as file:  # plays also fill the disk
        file.write(b".")
    while closed(name):
        time.sleep(0.002)


def visit_if(happens: bool, name: str) -> None:
    """... if this is what happens there."""
    if happens:
        visit(name)


def closed(name: str) -> bool:
    """Would a process be held there?"""
    return os.path.exists(f"{prefix()}.{name}.closed")


def worker() -> None:
    from hms_cache_proxy.methods.effects import FencedWrite
    from hms_cache_proxy.peers.requests import PeerAsk
    from hms_cache_proxy.server.peers_link import PeersLink

    def answered(link: Any, token: int, _by: str) -> None:
        question = link._waiting.get(token)
        if question is not None and question.request.kind is PeerAsk.WRITE:
            visit("leaves")

    send = PeersLink._send

    def sent(link: Any, request: Any, token: int) -> None:
        if not closed("asks"):
            send(link, request, token)

    check = PeersLink.check

    def checked(link: Any) -> None:
        if not closed("page"):
            check(link)

    before(PeersLink, "_answer", answered)
    PeersLink._send = sent  # type: ignore[assignment, method-assign]
    PeersLink.check = checked  # type: ignore[assignment, method-assign]
    before(FencedWrite, "reply_done", lambda *_: visit("replied"))


def follower() -> None:
    from hms_cache_proxy.follower.cycle import Cycle

    before(Cycle, "step", lambda *_: visit("step_begins"))
    before(Cycle, "_decide", lambda *_: visit("step_reads"))


def peers() -> None:
    from hms_cache_proxy.consistency.peer_fences import PeerFences
    from hms_cache_proxy.peers.driver import PeersProcess
    from hms_cache_proxy.peers.fleet import Fleet
    from hms_cache_proxy.peers.following import Following
    from hms_cache_proxy.peers.messages import FenceLifted, FenceRaised, LeaseGiven, Welcome
    from hms_cache_proxy.peers.outbox import PeerOutbox
    from hms_cache_proxy.peers.protocol import SendToPeer

    def received(_result: Any, _following: Any, message: Any, _now_ns: int) -> None:
        visit_if(isinstance(message, Welcome), "welcomed")
        visit_if(isinstance(message, FenceLifted), "lifted")

    def sends(_process: Any, command: Any) -> None:
        visit_if(isinstance(command, SendToPeer) and isinstance(command.message, FenceRaised), "fence_sent")

    after(PeerOutbox, "_wait", lambda _, outbox, token, *_rest: visit_if(token in outbox._waiting, "waits"))
    after(Fleet, "take", lambda _, fleet: visit_if(bool(fleet._ready), "waits"))
    after(Following, "received", received)
    after(
        PeersProcess, "arrived", lambda _, process, wire, message: visit_if(isinstance(message, LeaseGiven), "leased")
    )
    after(PeerFences, "missed", lambda *_: visit("missed"))
    before(PeersProcess, "_one", sends)


HOOKS = {"worker": worker, "follower": follower, "peers": peers}


def start(described: str) -> None:
    """In a process of a proxy that plays."""
    role = next((role for role in HOOKS if role in sys.orig_argv), None)
    if role is None:
        return
    play = json.loads(described)
    set_times(play["times"])
    if role == "peers":
        set_age(int(play["older_s"] * 1e9))
        set_name(play.get("says", "").encode())
    HOOKS[role]()


def set_times(times: dict[str, int]) -> None:
    from hms_cache_proxy.peers import following, protocol

    last_ns = times.pop("last_lease_ns", None)
    following.LONGEST_LEASE_NS = max(following.LONGEST_LEASE_NS, times["lease_ns"], last_ns or 0)  # type: ignore[misc]

    @dataclass(frozen=True, slots=True)
    class PlayTimes(protocol.FleetTimes):
        @property
        def last_lease_ns(self) -> int:
            given: int = protocol.FleetTimes.last_lease_ns.fget(self)  # type: ignore[attr-defined]  # a property
            return given if last_ns is None else last_ns

    protocol.fleet_times = lambda peers: PlayTimes(**times)


def set_age(older_ns: int) -> None:
    from hms_cache_proxy.peers import driver

    own_member = driver.OwnMember  # type: ignore[attr-defined]  # the name that it uses
    driver.OwnMember = lambda *own, **serves: older(own_member(*own, **serves), older_ns)  # type: ignore[assignment, attr-defined, misc]


def set_name(says: bytes) -> None:
    from hms_cache_proxy.peers.driver import PeersProcess
    from hms_cache_proxy.peers.messages import Hello

    addressed = PeersProcess._addressed

    def named(process: Any, wire: Any, message: Any) -> Any:
        if says and isinstance(message, Hello):
            return replace(message, address=says)
        return addressed(process, wire, message)

    PeersProcess._addressed = named  # type: ignore[assignment, method-assign]


def older(own: Any, by_ns: int) -> Any:
    return replace(own, started_ns=own.started_ns - by_ns)
