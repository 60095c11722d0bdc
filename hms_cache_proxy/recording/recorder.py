"""A dispatcher that gives the result of every read to the recording, whether the cache or the metastore answered it.

Job: wrap another dispatcher, pass everything on, and take the answers of allowed calls (allowed.py). Must not know: how
answers are found, the file.

Invariants
- Clients and the dispatcher see the same as without it, except that a relayed reply is held, up to HOLD_BYTES, instead
  of being passed on as it arrives.
- Only complete results are recorded: replies, and the answer that the metastore does not know the method. Other
  TApplicationExceptions mean that something failed, and refusals by this proxy are not results either.
- A connection that has called setMetaConf has different settings, and is not recorded.
Owner: one per worker, on its loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from hms_cache_proxy.errors import WireError
from hms_cache_proxy.methods.decision import (
    Ask,
    ClientCall,
    ClientSession,
    Decision,
    Dispatcher,
    Forward,
    PassingOn,
    Serve,
    Work,
)
from hms_cache_proxy.recording.allowed import ALLOWED
from hms_cache_proxy.recording.writer import Writer
from hms_cache_proxy.wire.message import NEED_MORE, ApplicationError, MessageType, parse_exception, parse_header

HOLD_BYTES: Final = 64 << 20
"""A longer result is not recorded."""
_TOO_LARGE = "the request or the result is too large"
_CHANGES_SETTINGS = b"setMetaConf"
_NAME = 8
_SEQID_BYTES = 4


@dataclass(frozen=True, slots=True)
class WantedCall:
    """A request whose result is to be recorded."""

    method: bytes
    arguments: bytes


class Recorder:
    """Decides as `inner` does."""

    def __init__(self, inner: Dispatcher, writer: Writer) -> None:
        self._inner = inner
        self._writer = writer
        self._hot = inner.hot
        self.moved, self.looked_ns, self.hot_wait = inner.moved, inner.looked_ns, inner.hot_wait

    def hot(self, session: ClientSession, data: bytes, now_ns: int) -> bytes | None:
        """The reply of the dispatcher's hot path."""
        reply = self._hot(session, data, now_ns)
        if reply is not None and self._writer.active:
            end = _NAME + data[_NAME - 1]  # kept replies have names of less than 256 bytes
            method, body = data[_NAME:end], end + _SEQID_BYTES
            if method in ALLOWED:
                self._writer.put(method, data[body:], reply[3], reply[body:])
        return reply

    def decide(self, call: ClientCall) -> Decision:
        """The dispatcher's decision."""
        session, header = call.session, call.header
        decision = self._inner.decide(call)
        if header.name == _CHANGES_SETTINGS:
            session.relay_for_good = True
        wanted = self._writer.active and header.name in ALLOWED and not session.relay_for_good
        if not wanted or header.type is not MessageType.CALL:
            return decision
        if not call.complete:
            self._writer.left_out("too_large", _TOO_LARGE)
            return decision
        return self._watch(WantedCall(header.name, call.message[header.body :]), decision)

    def _watch(self, call: WantedCall, decision: Decision) -> Decision:
        if isinstance(decision, Forward):
            hold_bytes = max(decision.hold_bytes, HOLD_BYTES)
            watched = _Watched(decision.pending, self, call, decision.hold_bytes)
            return replace(decision, hold_bytes=hold_bytes, pending=watched)
        if isinstance(decision, Work):
            return Work(partial(self._step, call, decision))
        if isinstance(decision, Serve) and decision.outcome == "hit":
            if isinstance(decision.chunks, bytes):
                self._answered(call, decision.chunks)
            else:
                return replace(decision, chunks=self._passing(call, decision.chunks))
        return decision

    def _step(self, call: WantedCall, work: Work) -> Decision | None:
        found = work.step()
        return None if found is None else self._watch(call, found)

    def _passing(self, call: WantedCall, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """The slices of an answer, which is recorded after the last one has been taken."""
        parts: list[bytes] = []
        left = HOLD_BYTES
        for chunk in chunks:
            left -= len(chunk)
            if left >= 0:
                parts.append(chunk)
            else:
                parts.clear()
            yield chunk
        if left >= 0:
            self._answered(call, b"".join(parts))
        else:
            self._writer.left_out("too_large", _TOO_LARGE)

    def _answered(self, call: WantedCall, reply: bytes) -> None:
        """A whole reply message."""
        header = parse_header(reply)
        assert header is not NEED_MORE, "a reply is whole"
        if header.type is MessageType.EXCEPTION and not _is_unknown_method(reply, header.body):
            return
        self._writer.put(call.method, call.arguments, header.type, reply[header.body :])

    def passed_on(self, call: WantedCall, reply: bytes | None) -> None:
        """The reply to a forwarded call, as the client gets it; None if it was too long to be held."""
        if reply is None:
            self._writer.left_out("too_large", _TOO_LARGE)
        else:
            self._answered(call, reply)


@dataclass(frozen=True, slots=True)
class _Watched(PassingOn):
    """A call that the dispatcher forwards, and whose result is to be recorded. The inner Pending gets replies up to
    `hold_bytes`, as it has asked for."""

    recorder: Recorder
    call: WantedCall
    hold_bytes: int

    def reply_done(self, session: ClientSession, reply: bytes | None, now_ns: int) -> None:
        shown = reply is not None and len(reply) <= self.hold_bytes
        self.inner.reply_done(session, reply if shown else None, now_ns)
        self.recorder.passed_on(self.call, reply)

    def answered(self, reply: bytes | None) -> Ask | bytes | None:
        step = self.inner.answered(reply)
        if isinstance(step, bytes):
            self.recorder.passed_on(self.call, step)
        return step


def _is_unknown_method(reply: bytes, body: int) -> bool:
    try:
        return parse_exception(reply, body).type == ApplicationError.UNKNOWN_METHOD
    except WireError:
        return False
