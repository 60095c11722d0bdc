"""A model of the protocol between two proxies: what a writer owes a holder that follows it, as transitions.

Every rule of the protocol is one of ordered pairs of incarnations. The same transitions serve a search of all orders
(pair_search.py) and the replay of what real `Fleet` objects did (pair_replay.py). A transition that a rule forbids
raises `Forbidden` with the rule's name; a rule that is left out forbids nothing, or the model does not do what it says.

What must hold (`stale`): while the holder may answer from its cache, each write that its writer was told may go is
fenced at the holder, until a step of the holder's follower that began after the write was over has ended.

Times are of the clock of the side that reads them; a search compares what is left of them.
"""

from __future__ import annotations

from collections.abc import Collection
from copy import copy
from dataclasses import dataclass
from typing import Self

RULES = {
    "no_wait": "a write goes without an acknowledgement and without waiting for leases",
    "no_expiry": "... where the holder is not connected",
    "catching_up": "a lease is given although the holder was not told of a write",
    "left_alone": "... of which the process has heard only after it was over",
    "overtaking": "a lease overtakes a fence",
    "receiver_clock": "a lease counts from when it arrives, not from when it was asked for",
    "no_lease": "reads are answered from the cache without a lease",
    "stores": "a fence is acknowledged, and does not stand",
    "early_ticket": "peers are told that a write is over before its reply is here",
    "running_step": "a step vouches for what was over after it had begun",
    "no_replay": "a new connection does not begin with all open fences",
    "no_owed": "a new connection does not fence what the holder has missed for one step",
    "old_lease": "a lease of the last connection counts on the new one",
    "no_hold": "the fences of a writer that is missed end at once",
    "no_welcome": "a new incarnation lets writes go before the holder requires its lease",
    "late_lease": "the lease of the last incarnation counts after the hello of the next",
}
Message = tuple[str, int, int]
"""Kind and two numbers: ("lease", asked, duration), ("fence", write, 0), ("ack", records, 0), ..."""

RECORDS = ("fence", "lift", "replayed", "note")
REPLAYED = -1
"""In the place of a record: the replay's end fences what was over before it."""

ENDED = ("over", "never")
LEFT = ("gone", "dead", "over")


class Forbidden(AssertionError):
    """A rule does not allow this now."""

    def __init__(self, rule: str, what: str) -> None:
        super().__init__(f"{rule}: {what}")
        self.rule = rule


@dataclass(slots=True)
class PairWrite:
    """One write of the writer. `waits`: until the leases that were given before the holder was told of it have run out.
    `told`: with which record of this connection. `agreed`: the holder has acknowledged that, on this connection or an
    earlier one; a worker hears later that its write may go, and the connection may have ended by then. `held`, `until`,
    `taken`, `fresh`: of the holder: its fence is "held", has an end ("hold"), or a ticket, which the running step has
    `taken`; that step began when the write was over."""

    phase: str = "fenced"
    waits: int = 0
    told: int = 0
    agreed: bool = False
    held: str = ""
    until: int = 0
    taken: bool = False
    fresh: bool = False
    owed: bool = False
    owed_taken: bool = False
    """A fence of the holder that had a ticket from its beginning."""

    foreign: bool = False
    """Of another proxy: the writer passes on what it holds for it."""

    @property
    def stands(self) -> bool:
        """Is it one of the writer's own, and not over?"""
        return self.phase in ("fenced", "gone") and not self.foreign


class Pair:
    """The state of both sides, and what is on its way between them."""

    def __init__(self, *, hold: int, write_age: int, left_out: Collection[str] = ()) -> None:
        self.left_out, self.hold_time = left_out, hold
        self.writes: dict[object, PairWrite] = {}
        self.down: dict[int, list[Message]] = {}
        self.up: dict[int, list[Message]] = {}
        # the writer
        self.now_w, self.given, self.old = 0, 0, write_age
        self.line: int | None = None
        self.sent = 0
        self.replayed = self.welcomed = False
        self.standing: frozenset[object] = frozenset()
        # the holder
        self.now_h, self.lease, self.served = 0, 0, 0
        self.at: int | None = None
        self.current = self.required = False
        self.listed: frozenset[object] = frozenset()
        self.unheld: frozenset[object] = frozenset()
        self.stepping = False

    def copy(self) -> Self:
        """Independent of this one."""
        other = copy(self)
        other.writes = {name: copy(write) for name, write in self.writes.items()}
        other.down = {number: list(queue) for number, queue in self.down.items()}
        other.up = {number: list(queue) for number, queue in self.up.items()}
        return other

    def must(self, rule: str, holds: bool, what: str = "") -> None:
        if not holds and rule not in self.left_out:
            raise Forbidden(rule, what or RULES[rule])

    def stale(self) -> list[object]:
        """The writes that the holder may hide from a reader now."""
        if self.now_h >= self.served:
            return []
        return [
            name for name, one in self.writes.items() if one.phase in LEFT and not (one.held or one.owed or one.foreign)
        ]

    # the writer

    def raised(self, name: object) -> None:
        """A write is fenced at its proxy."""
        self.writes[name] = PairWrite(waits=self.given)

    def go(self, name: object) -> None:
        """The writer is told that it may go."""
        one = self.writes[name]
        if self.line is not None or "no_expiry" not in self.left_out:
            self.must("no_wait", one.agreed or self.now_w >= one.waits, f"write {name} goes")
        self.must("no_welcome", self.welcomed or self.now_w >= self.old, f"write {name} goes")
        if one.phase == "fenced":
            one.phase = "gone"

    def over(self, name: object) -> None:
        """Its reply is here, or it never left, or it will not be carried out any more."""
        one = self.writes[name]
        one.phase = "never" if one.phase in ("fenced", "never") else "over"

    def dies(self) -> None:
        """The writer's machine. What has gone may still be carried out."""
        self.line = None
        for one in self.writes.values():
            one.phase = {"fenced": "never", "gone": "dead"}.get(one.phase, one.phase)

    def greeted(self, number: int) -> None:
        """The holder follows on a new connection. Its replay must tell of what stands now, unless that is over when the
        replay ends; of what workers fence meanwhile they ask afterwards."""
        self.line, self.sent, self.replayed = number, 0, False
        for one in self.writes.values():
            one.told = REPLAYED if one.phase == "over" else 0
        self.standing = frozenset(name for name, one in self.writes.items() if one.stands)

    def send(self, number: int, message: Message, name: object = None) -> None:
        """To the holder. `name`: of the write that it is about."""
        kind = message[0]
        self.down.setdefault(number, []).append(message)
        if number != self.line:
            return
        self.sent += kind in RECORDS
        if kind in ("fence", "note") and name is not None:
            self.writes[name].told = self.sent
        elif kind == "lift":
            self.must("early_ticket", self.writes[name].phase in ENDED or self.writes[name].foreign)
        elif kind == "replayed":
            standing = [one for name, one in self.writes.items() if name in self.standing and one.stands]
            self.must("no_replay", all(one.told for one in standing))
            self.replayed = True
        elif kind == "lease" and message[2]:
            self.must("no_replay", self.replayed, "a lease before the replay")
            standing = [one for one in self.writes.values() if one.stands]
            self.must("catching_up", all(one.told or one.phase == "fenced" for one in standing))
            over = [one for one in self.writes.values() if one.phase == "over" and not one.foreign]
            self.must("left_alone", all(one.told for one in over))

    def gave(self, until: int) -> None:
        """A lease that has run out at this time, by any clock."""
        self.given = max(self.given, until)
        for one in self.writes.values():
            if one.phase == "fenced" and not one.told and "catching_up" not in self.left_out:
                one.waits = max(one.waits, until)

    def acknowledged(self, number: int, records: int) -> None:
        if number == self.line:
            self.must("stores", records <= self.sent, "it acknowledges what it was not sent")
            for one in self.writes.values():
                one.agreed |= 0 < one.told <= records

    def void(self) -> None:
        """The holder answers nothing any more."""
        self.given = 0
        for one in self.writes.values():
            one.waits = 0

    def lost_at_writer(self, number: int) -> None:
        if number == self.line:
            self.line = None

    # the holder

    def connects(self, number: int) -> None:
        """It dials: the lease of an earlier connection says nothing about this one."""
        self.at, self.current = number, False
        self.listed = self.unheld = frozenset()
        if "old_lease" not in self.left_out:
            self.lease = 0

    def take(self, number: int, message: Message, *, down: bool) -> None:
        """A message arrives, in order."""
        queue = (self.down if down else self.up).get(number, [])
        self.must("overtaking", bool(queue) and queue[0] == message, f"{message} arrives, on its way are {queue[:3]}")
        queue.remove(message)

    def told(self, name: object) -> None:
        """It receives a fence. `hold` must follow before the acknowledgement."""
        self.unheld |= {name}
        if not self.current:
            self.listed |= {name}

    def hold(self, name: object) -> None:
        """The fence stands."""
        self.unheld -= {name}
        one = self.writes.setdefault(name, PairWrite(foreign=True))
        one.held, one.taken = "held", False

    def reload(self, name: object) -> None:
        """It is told of a write that is over: a fence that has a ticket."""
        one = self.writes.get(name)
        if one is not None:
            one.owed, one.owed_taken = True, False

    def acknowledges(self, number: int, records: int) -> None:
        self.must("stores", not self.unheld, f"{sorted(map(str, self.unheld))} are acknowledged")
        self.up.setdefault(number, []).append(("ack", records, 0))

    def release(self, name: object) -> None:
        """A fence has a ticket from here on."""
        one = self.writes.get(name)
        if one is not None and one.held in ("held", "hold"):
            self.must("early_ticket", one.phase in ENDED or one.foreign, f"the fence of {name} ends")
            one.held, one.taken = "ticket", False

    def replay_ends(self) -> None:
        """What was held for this writer and is not listed has a ticket; so has everything that was missed."""
        for name, one in self.writes.items():
            if one.held in ("held", "hold") and name not in self.listed:
                one.held, one.taken = "ticket", False
            if one.phase == "over" and "no_owed" not in self.left_out:
                one.owed, one.owed_taken = True, False
        self.current = True

    def leased(self, asked: int, duration: int) -> None:
        self.must("no_replay", self.current, "a lease is taken before the replay's end")
        self.lease = max(self.lease, (self.now_h if "receiver_clock" in self.left_out else asked) + duration)

    def serves(self, until: int) -> None:
        """Reads that arrive before this time may be answered from the cache."""
        self.must("no_lease", not self.required or until <= max(self.lease, self.now_h), f"until {until}")
        self.served = until

    def requires(self) -> None:
        """The holder knows the writer's incarnation."""
        if not self.required and "late_lease" not in self.left_out:
            self.lease = 0
        self.required = True

    def welcomes(self) -> None:
        """The holder tells the writer that it needs its lease."""
        self.must("late_lease", self.required and self.served <= max(self.lease, self.now_h), "the writer is welcomed")

    def missed(self) -> None:
        """The connection has ended: what was told stands for as long as a metastore may work on it."""
        for one in self.writes.values():
            if one.held == "held":
                one.held, one.until = "hold", self.now_h + self.hold_time
                if "no_hold" in self.left_out:
                    one.held, one.taken = "ticket", False

    def lost_at_holder(self, number: int) -> None:
        if number == self.at:
            self.at, self.current = None, False
            self.missed()

    def expires(self, name: object) -> None:
        one = self.writes.get(name)
        if one is not None and one.held in ("held", "hold"):
            self.must("no_hold", one.held == "hold" and self.now_h >= one.until, f"the fence of {name} ends")
            one.held, one.taken = "ticket", False

    def step_begins(self) -> None:
        self.stepping = True
        for one in self.writes.values():
            one.taken, one.fresh, one.owed_taken = one.held == "ticket", one.phase == "over", one.owed

    def step_ends(self) -> None:
        """Its tickets are done; what was over when it began is in the cache."""
        self.stepping = False
        for name, one in list(self.writes.items()):
            if one.held == "ticket" and (one.taken or "running_step" in self.left_out):
                one.held = ""
            one.owed &= not one.owed_taken
            if not (one.held or one.owed) and (one.fresh or one.foreign):
                del self.writes[name]
            one.taken = one.fresh = one.owed_taken = False
