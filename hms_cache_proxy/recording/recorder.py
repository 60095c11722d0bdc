"""A Decider that gives every read's result to the recording, whether the cache or the metastore answered it.

Job: stand before the dispatcher, pass everything on, look at the answers of the calls that are allowed (allowed.py).
Must not know: how answers are found, the file.

Invariants
- What clients get and what the dispatcher is told is the same as without it. To see a relayed reply it is held up to
  HOLD_BYTES, where it would have been passed on as it came.
- Only whole results are recorded: replies, and that the metastore does not know the method. Other
  TApplicationExceptions say that something broke; what this proxy refuses by itself is no result either.
- A connection that has called setMetaConf sees settings of its own: it is not recorded.
Owner: one per worker, on its loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from hms_cache_proxy.errors import WireError
from hms_cache_proxy.methods.decision import Ask, ClientSession, Decider, Decision, Forward, Pending, Serve, Work
from hms_cache_proxy.recording.allowed import ALLOWED
from hms_cache_proxy.recording.writer import Writer
from hms_cache_proxy.wire.message import (
    NEED_MORE,
    ApplicationError,
    Header,
    MessageType,
    parse_exception,
    parse_header,
)

HOLD_BYTES: Final = 64 << 20
"""A longer result is not recorded."""
_TOO_LARGE = "the request or the result is too large"
_CHANGES_SETTINGS = b"setMetaConf"
_NAME = 8
_SEQID_BYTES = 4


@dataclass(frozen=True, slots=True)
class WantedCall:
    """A request whose result is wanted."""

    method: bytes
    arguments: bytes


class Recorder:
    """Decides as `inner` does."""

    def __init__(self, inner: Decider, writer: Writer) -> None:
        self._inner = inner
        self._writer = writer
        self._hot = inner.hot
        self.moved = inner.moved

    def hot(self, session: ClientSession, data: bytes, now_ns: int) -> bytes | None:
        """The dispatcher's reply to a request that it knows by heart."""
        reply = self._hot(session, data, now_ns)
        if reply is not None and self._writer.active:
            end = _NAME + data[_NAME - 1]  # kept replies have names of less than 256 bytes
            method, body = data[_NAME:end], end + _SEQID_BYTES
            if method in ALLOWED:
                self._writer.put(method, data[body:], reply[3], reply[body:])
        return reply

    def decide(
        self,
        session: ClientSession,
        header: Header,
        message: bytes,
        now_ns: int,
        *,
        complete: bool = True,
        patient: bool = False,
    ) -> Decision:
        """The dispatcher's decision."""
        decision = self._inner.decide(session, header, message, now_ns, complete=complete, patient=patient)
        if header.name == _CHANGES_SETTINGS:
            session.relay_for_good = True
        wanted = self._writer.active and header.name in ALLOWED and not session.relay_for_good
        if not wanted or header.type is not MessageType.CALL:
            return decision
        if not complete:
            self._writer.left_out("too_large", _TOO_LARGE)
            return decision
        return self._watch(WantedCall(header.name, message[header.body :]), decision)

    def _watch(self, call: WantedCall, decision: Decision) -> Decision:
        if isinstance(decision, Forward):
            hold_bytes = max(decision.hold_bytes, HOLD_BYTES)
            return replace(decision, hold_bytes=hold_bytes, pending=_Watched(self, call, decision))
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
        """The slices of an answer; recorded once the last has been taken."""
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
        """What the client gets in answer to a call that was forwarded; None if it was too long to be held."""
        if reply is None:
            self._writer.left_out("too_large", _TOO_LARGE)
        else:
            self._answered(call, reply)


@dataclass(frozen=True, slots=True)
class _Watched(Pending):
    """A call that the dispatcher forwards, and whose result is wanted; it is shown what it has asked for."""

    recorder: Recorder
    call: WantedCall
    inner: Forward

    def sending(self) -> None:
        self.inner.pending.sending()

    def reply_began(self, session: ClientSession, now_ns: int) -> None:
        self.inner.pending.reply_began(session, now_ns)

    def reply_done(self, session: ClientSession, reply: bytes | None, now_ns: int) -> None:
        shown = reply is not None and len(reply) <= self.inner.hold_bytes
        self.inner.pending.reply_done(session, reply if shown else None, now_ns)
        self.recorder.passed_on(self.call, reply)

    def failed(self, sent: bool) -> None:
        self.inner.pending.failed(sent)

    def answered(self, reply: bytes | None) -> Ask | bytes | None:
        step = self.inner.pending.answered(reply)
        if isinstance(step, bytes):
            self.recorder.passed_on(self.call, step)
        return step


def _is_unknown_method(reply: bytes, body: int) -> bool:
    try:
        return parse_exception(reply, body).type == ApplicationError.UNKNOWN_METHOD
    except WireError:
        return False
