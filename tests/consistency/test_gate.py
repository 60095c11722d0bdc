"""The gate: each rule by itself, on a real state page. Only the fences are a stand-in, at their Protocol."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from time import CLOCK_BOOTTIME, clock_gettime_ns
from typing import Any

import pytest

from hms_cache_proxy.cache.state import MODE_RELAY_ONLY, MODE_SERVE, Slot, StatePage
from hms_cache_proxy.consistency.floors import Floors
from hms_cache_proxy.consistency.gate import ConsistencyMode, Gate, Reason, Rules

SECOND_NS = 10**9
NOW_NS = 1000 * SECOND_NS


class Fenced:
    """Targets that are fenced until a ticket is done."""

    def __init__(self, tickets: dict[bytes, int] | None = None) -> None:
        self.tickets = tickets or {}

    def active(self, targets: Sequence[bytes], done_ticket: int) -> bool:
        return any(self.tickets.get(target, 0) > done_ticket for target in targets)

    def liftable(self, targets: Sequence[bytes]) -> bool:
        return True


@pytest.fixture
def page(tmp_path: Path) -> Iterator[StatePage]:
    """A page on which everything is in order."""
    with StatePage(tmp_path / "state", create=True) as page:
        page[Slot.SERVE_MODE] = MODE_SERVE
        page[Slot.BEGAN_NS] = NOW_NS - SECOND_NS
        page[Slot.CURSOR] = page[Slot.START_EVENT] = 100
        yield page


def gate(page: StatePage, mode: ConsistencyMode = "session", fences: Fenced | None = None) -> Gate:
    return Gate(page, fences or Fenced(), Rules(mode, 10 * SECOND_NS, 2 * SECOND_NS))


def test_all_in_order(page: StatePage) -> None:
    for mode in ("session", "bounded", "eventual"):
        assert gate(page, mode).standing(False, NOW_NS) is None
        assert gate(page, mode).held_back([b"t"], None) is None


@pytest.mark.parametrize(("slot", "value"), [(Slot.SERVE_MODE, MODE_RELAY_ONLY), (Slot.BEGAN_NS, 0), (Slot.CURSOR, 99)])
def test_nothing_before_the_cache_has_caught_up(page: StatePage, slot: int, value: int) -> None:
    page[slot] = value
    for mode in ("session", "bounded", "strict", "eventual"):
        assert gate(page, mode).standing(False, NOW_NS) is Reason.STARTING


def test_a_stuck_follower(page: StatePage) -> None:
    page[Slot.BEGAN_NS] = NOW_NS - 3 * SECOND_NS
    assert gate(page).standing(False, NOW_NS) is None
    assert gate(page, "bounded").standing(False, NOW_NS) is Reason.BOUNDED
    assert gate(page, "eventual").standing(False, NOW_NS) is None
    page[Slot.BEGAN_NS] = NOW_NS - 11 * SECOND_NS
    assert gate(page).standing(False, NOW_NS) is Reason.UNCONFIRMED
    assert gate(page, "bounded").standing(False, NOW_NS) is Reason.UNCONFIRMED
    assert gate(page, "eventual").standing(False, NOW_NS) is Reason.UNCONFIRMED


def test_what_may_be_stale_in_an_outage(page: StatePage) -> None:
    allowed = Gate(page, Fenced(), Rules("bounded", 10 * SECOND_NS, 2 * SECOND_NS, 60 * SECOND_NS))
    for reason in (Reason.UNCONFIRMED, Reason.BOUNDED):
        page[Slot.BEGAN_NS] = NOW_NS - 59 * SECOND_NS
        assert allowed.stale_enough(reason, NOW_NS) and not gate(page).stale_enough(reason, NOW_NS)
        page[Slot.BEGAN_NS] = NOW_NS - 61 * SECOND_NS
        assert not allowed.stale_enough(reason, NOW_NS)
    page[Slot.BEGAN_NS] = NOW_NS - 59 * SECOND_NS
    assert not allowed.stale_enough(Reason.STARTING, NOW_NS)


def test_a_confirmation_ages_while_the_machine_sleeps(page: StatePage) -> None:
    allowed = Gate(page, Fenced(), Rules("session", 10 * SECOND_NS, 2 * SECOND_NS, 60 * SECOND_NS))
    for slept_s, reasons in (
        (1, (None, None, None)),
        (3, (None, Reason.BOUNDED, None)),
        (11, (Reason.UNCONFIRMED, Reason.UNCONFIRMED, Reason.UNCONFIRMED)),
    ):
        page[Slot.BEGAN_BOOT_NS] = clock_gettime_ns(CLOCK_BOOTTIME) - slept_s * SECOND_NS
        modes: tuple[ConsistencyMode, ...] = ("session", "bounded", "eventual")
        assert tuple(gate(page, mode).standing(False, NOW_NS) for mode in modes) == reasons
        assert gate(page).overslept() is (slept_s > 10)
        assert allowed.stale_enough(Reason.UNCONFIRMED, NOW_NS)
    page[Slot.BEGAN_BOOT_NS] -= 51 * SECOND_NS
    assert not allowed.stale_enough(Reason.UNCONFIRMED, NOW_NS)


def test_strict_wants_a_step_that_began_after_the_read_arrived(page: StatePage) -> None:
    assert gate(page, "strict").standing(False, NOW_NS) is Reason.STRICT


def test_fences_until_their_ticket_is_done(page: StatePage) -> None:
    fenced = gate(page, fences=Fenced({b"t": 7}))
    assert fenced.held_back([b"x", b"t"], None) is Reason.FENCE
    assert fenced.held_back([b"x"], None) is None
    page[Slot.DONE_TICKET] = 7
    assert fenced.held_back([b"t"], None) is None
    assert gate(page, "eventual", Fenced({b"t": 8})).held_back([b"t"], None) is None


def test_floors_of_the_connection(page: StatePage) -> None:
    floors = Floors()
    floors.lift([b"t"], NOW_NS)
    assert gate(page).held_back([b"t"], floors) is Reason.FLOOR
    assert gate(page).held_back([b"x"], floors) is None
    page[Slot.BEGAN_NS] = NOW_NS + 1
    assert gate(page).held_back([b"t"], floors) is None


def test_connections_and_authorization(page: StatePage) -> None:
    open_gate = gate(page)
    assert open_gate.standing(True, NOW_NS) is Reason.SETMETACONF
    open_gate.authorization = "relay"
    assert open_gate.standing(False, NOW_NS) is Reason.AUTHORIZATION
    open_gate.authorization = "per_user"
    assert open_gate.standing(False, NOW_NS) is None


def test_without_a_lease_a_read_needs_a_look_that_began_after_it(page: StatePage) -> None:
    for mode in ("session", "bounded"):
        leased = Gate(page, Fenced(), Rules(mode, 10 * SECOND_NS, 2 * SECOND_NS, leased=True))
        page[Slot.LEASE_UNTIL_NS] = 0
        assert leased.standing(False, NOW_NS) is Reason.PEERS
        assert leased.standing(False, page[Slot.BEGAN_NS] - 1) is None, "the look began after this one"
        assert leased.ends_with_next_step(Reason.PEERS, [])
        assert leased.open_until(page[Slot.BEGAN_NS]) < page[Slot.BEGAN_NS]
        page[Slot.LEASE_UNTIL_NS] = clock_gettime_ns(CLOCK_BOOTTIME) + 60 * SECOND_NS
        assert leased.standing(False, NOW_NS) is None
    page[Slot.LEASE_UNTIL_NS] = 0
    others: tuple[tuple[Any, Reason | None], ...] = (("eventual", None), ("strict", Reason.STRICT))
    for mode, reason in others:
        gate_of = Gate(page, Fenced(), Rules(mode, 10 * SECOND_NS, 2 * SECOND_NS, leased=True))
        assert gate_of.standing(False, NOW_NS) is reason, "these need no lease"
