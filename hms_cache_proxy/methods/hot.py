"""The hot path: answers a request whose very bytes were answered before, in about a microsecond.

Job: give a kept reply again while everything that allowed it is unchanged. Must not know: sockets, what a request
means. It never gives a reply that the full path (dispatch.py) would not give at that moment.

Why it is quick: apart from time, everything that can change the gate's answer or a reply's validity is published on the
state page (commits, tickets done, fences, writes without a fence, whether to serve), or is a newer snapshot that this
worker has opened itself (`reader.seen_seq`). So the page's words are copied at once and compared with those for which
the gate was open (`_state`). If they are equal, only the age of the confirmation and the connection's floors remain to
be checked. Whether the machine has slept since the confirmation is checked once in AWAKE_NS of monotonic time, because
no machine falls asleep and wakes up within that time.

- A reply whose `approved` is the current stamp was checked in this very state, and is given at once.
- A step of the follower that commits nothing changes the words. A reply whose `valid` is the current stamp is still
  valid and unfenced, because versions, fences and tickets are the same. Only its place in the LRU order is renewed.
- Otherwise the gate, the fences and the versions are checked, between two equal copies of the words.

Why comparing is enough, although words are written one by one while they are copied: each word compared equal, so it
had its approved value when it was read; and no word ever returns to an earlier value (counters grow, FENCE_SEQ is never
stored twice, BEGAN_NS is a time). So all words had their approved values at the moment when the first one was read. The
only other case is a word that was stored between that moment and its own reading; but approval needed all of them
stored.

Owner: one per worker, on its loop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from mmap import mmap
from struct import Struct
from time import monotonic_ns
from typing import Any, Final

from hms_cache_proxy.cache.reader import CacheReader
from hms_cache_proxy.cache.replies import HitLabel, ReplyCache, ReplyEntry, Stamp, stand
from hms_cache_proxy.cache.state import Slot, StatePage
from hms_cache_proxy.cache.targets import Target
from hms_cache_proxy.consistency.floors import Floors
from hms_cache_proxy.consistency.gate import Gate
from hms_cache_proxy.errors import CacheError
from hms_cache_proxy.metrics import BOUNDS

from .decision import ClientSession

_FIRST, _LAST = Slot.CACHE_SEQ, Slot.UNFENCED  # neighbours: everything in between is copied too
_WINDOW: Final = slice(_FIRST * 8, _LAST * 8 + 8)
_WORDS: Final = Struct(f"={_LAST - _FIRST + 1}Q")
_PASSING: Final = (Slot.BEGAN_NS - _FIRST, Slot.LEASE_UNTIL_NS - _FIRST, Slot.UPSTREAM_EVENT - _FIRST)
"""Words that change although nothing else does: with each step, with each lease."""
_SEQID = 4
AWAKE_NS: Final = 1_000_000
"""How often it is looked for whether the machine has slept."""
MARKED_NS: Final = 10_000_000_000
"""How often an entry is checked again although nothing has changed: this marks its tables as used."""
_QUICK_NS: Final = int(BOUNDS[0] * 1e9)

SAMPLED_EVERY: Final = 16
"""One of so many answers is a sample, chosen by bits of the clock, which costs less than counting."""
_NOT_SAMPLED: Final = (SAMPLED_EVERY - 1) << 6
MOST_SAMPLES: Final = 8192
Sampled = tuple[tuple[Target, ...], bytes | None]
"""What an answer depended on, and who asked."""

Told = Callable[[int, int, bytes, ClientSession, bytes, HitLabel], None]
"""Called for each answer: when its request arrived, how long the answer took (ns), the reply, the session, the request,
the label."""


def new_samples() -> deque[Sampled]:
    """None yet. Whoever reads them takes them away."""
    return deque(maxlen=MOST_SAMPLES)


def _all(told: Sequence[Told]) -> Told | None:
    """What tells all of them."""
    if len(told) < 2:
        return told[0] if told else None

    def tell(*answer: Any) -> None:
        for one in told:
            one(*answer)

    return tell


class HotPath:
    """Kept replies, given again."""

    __slots__ = (
        "_approved",
        "_awake_until_ns",
        "_began_ns",
        "_gate",
        "_learned",
        "_leased_until_ns",
        "_lookup",
        "_mark_ns",
        "_per_user",
        "_raw",
        "_reader",
        "_replies",
        "_samples",
        "_seen_seq",
        "_state",
        "_tell",
        "_unchanging",
        "_until_ns",
        "_valid",
    )

    def __init__(
        self,
        page: StatePage,
        reader: CacheReader,
        replies: ReplyCache,
        gate: Gate,
        told: Sequence[Told],
        samples: deque[Sampled],
    ) -> None:
        """`told`: each answer is reported to these. `samples`: for samples of the answers, the newest last."""
        raw = page.words.obj
        assert isinstance(raw, mmap)
        self._raw = raw
        self._reader = reader
        self._replies = replies
        self._lookup = replies.lookup
        self._gate = gate
        self._tell = _all(told)
        self._samples = samples
        self.forget()

    def forget(self) -> None:
        """Check everything again that was approved: the rules have changed."""
        self._learned = self._gate.authorization == "learned"
        self._per_user = self._learned or self._gate.authorization == "per_user"
        self._state = b""
        self._unchanging: tuple[int, ...] = ()
        self._seen_seq = -1
        self._approved = self._valid = Stamp()
        self._began_ns = self._mark_ns = self._awake_until_ns = 0
        self._until_ns = 0
        self._leased_until_ns: int | None = None  # None: this state needs no lease

    def key(self, session: ClientSession, message: bytes, seqid: int) -> bytes:
        """The key of a kept reply: the request without its sequence id, and the user where that matters."""
        key = message[:seqid] + message[seqid + _SEQID :]
        if self._per_user:
            return b"%b\0%b" % (session.identity or b"", key)
        return key

    def kept(self, session: ClientSession, data: bytes) -> ReplyEntry | None:
        """What is kept for `data`, valid or not, if it is one request."""
        return self._lookup(self.key(session, data, 8 + data[7])) if len(data) > 7 else None

    def answer(self, session: ClientSession, data: bytes, now_ns: int) -> bytes | None:
        """The whole reply if `data` is exactly one request whose kept reply is still valid; else None."""
        try:
            seqid = 8 + data[7]  # version and type, the name's length (names are shorter than 256 bytes), the name
        except IndexError:
            return None
        after = seqid + 4
        key = data[:seqid] + data[after:]
        if self._per_user:
            key = self.key(session, data, seqid)
        entry = self._lookup(key)
        if entry is None:
            return None
        if (
            (now_ns > self._awake_until_ns and self._slept(now_ns))
            or entry.approved is not self._approved
            or self._raw[_WINDOW] != self._state
            or self._reader.seen_seq > self._seen_seq
            or now_ns > self._until_ns
            or (self._leased_until_ns is not None and self._gate.lapsed(self._leased_until_ns))
        ) and not self._approve(key, entry, now_ns):
            return None
        if entry.by_look and self._began_ns <= now_ns:
            return None
        if self._learned and not stand(entry.verdicts):
            return None
        if session.relay_for_good or (session.floors is not None and self._below_floor(session.floors, entry)):
            return None
        label = entry.label
        assert label is not None, "every reply that the dispatcher keeps has one"
        reply = label.head + data[seqid:after] + entry.body
        counts = label.counts
        took_ns = monotonic_ns() - now_ns
        if took_ns < _QUICK_NS:
            counts.quick += 1
            counts.quick_ns += took_ns
        else:
            counts.observe(took_ns * 1e-9)
        if not now_ns & _NOT_SAMPLED:
            self._samples.append((entry.depends, session.identity))
        if self._tell is not None:
            self._tell(now_ns, took_ns, reply, session, data, label)
        return reply

    def _slept(self, now_ns: int) -> bool:
        """Has the machine slept for too long since the confirmation? Then nothing stays approved."""
        if self._gate.overslept():
            self._approved, self._state = Stamp(), b""
            return True
        self._awake_until_ns = now_ns + AWAKE_NS
        return False

    def _below_floor(self, floors: Floors, entry: ReplyEntry) -> bool:
        return bool(floors.highest_ns) and not self._gate.eventual and floors.block(entry.depends, self._began_ns)

    def _approve(self, key: bytes, entry: ReplyEntry, now_ns: int) -> bool:
        """Check the gate and the entry in one state of the page."""
        state = self._raw[_WINDOW]
        leased_until_ns = self._leased_until_ns
        current = state == self._state and now_ns <= self._until_ns and self._reader.seen_seq <= self._seen_seq
        current = current and (leased_until_ns is None or not self._gate.lapsed(leased_until_ns))
        if not current and not self._renew(state, now_ns):
            return False
        if entry.valid is self._valid:
            self._replies.touch(key)
        elif not self._still_valid(key, entry, state):
            return False
        entry.approved = self._approved
        return True

    def _renew(self, state: bytes, now_ns: int) -> bool:
        """Is the gate open in this state? If so, this state becomes the current one."""
        gate = self._gate
        if gate.standing(False, now_ns) is not None:
            return False
        words = _WORDS.unpack(state)
        unchanging = tuple(word for number, word in enumerate(words) if number not in _PASSING)
        seen_seq = max(words[Slot.CACHE_SEQ - _FIRST], self._reader.seen_seq)
        if self._raw[_WINDOW] != state:
            return False  # a step is being published; the full path reads in the right order
        if unchanging != self._unchanging or seen_seq != self._seen_seq or now_ns > self._mark_ns:
            self._valid = Stamp()
            self._mark_ns = now_ns + MARKED_NS
        self._approved = Stamp()
        self._state, self._unchanging, self._seen_seq = state, unchanging, seen_seq
        self._began_ns = words[Slot.BEGAN_NS - _FIRST]
        self._until_ns = gate.open_until(self._began_ns)
        self._leased_until_ns = (
            words[Slot.LEASE_UNTIL_NS - _FIRST] if gate.leased and self._until_ns >= self._began_ns else None
        )
        return True

    def _still_valid(self, key: bytes, entry: ReplyEntry, state: bytes) -> bool:
        """Is the entry unfenced and valid in this state?"""
        if self._gate.held_back(entry.depends, None) is not None:
            return False
        if self._replies.get(key) is None and not self._revalidated(key):
            return False
        if self._raw[_WINDOW] != state or self._reader.seen_seq > self._seen_seq:
            return False  # the entry may belong to another state
        entry.valid = self._valid
        self._reader.uses.mark(entry.depends)
        return True

    def _revalidated(self, key: bytes) -> bool:
        try:
            with self._reader.snapshot() as snapshot:
                return self._replies.revalidate(key, snapshot, self._began_ns) is not None
        except CacheError:
            return False  # the full path fails too, and counts it
