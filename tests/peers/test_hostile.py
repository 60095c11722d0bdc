"""A peer that has the secret, and says anything: its connection ends, and nothing else."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hms_cache_proxy.cache.state import StatePage
from hms_cache_proxy.consistency.peer_fences import PeerFences
from hms_cache_proxy.errors import WireError
from hms_cache_proxy.peers.fleet import Fleet, OwnMember
from hms_cache_proxy.peers.messages import (
    FORMS,
    Hello,
    LeaseAsked,
    LeaseGiven,
    PeerMessage,
    Replayed,
    Welcome,
    decode,
    encode,
)
from hms_cache_proxy.peers.protocol import FleetTimes, SendToPeer, ServeUntil

OWN, OTHER = b"o" * 16, b"x" * 16
S = 10**9
NUMBERS = st.sampled_from([0, 1, 2, 3, -1, 100 * S, 2**62, 2**63 - 1, -(2**63)])
BYTES = st.sampled_from([b"", b"m", OTHER, OWN, b"y" * 16, b"z" * 15, b"\xff\0:99999", b"t" * 70_000])
TARGETS = st.lists(st.sampled_from([b"", b"tx\0y\0a", b"*", b"Zx", b"t" * 600, b"t" * 70_000, b"\0" * 24]), max_size=3)
VALUES: dict[str, st.SearchStrategy[Any]] = {"i": NUMBERS, "b": BYTES, "t": TARGETS.map(tuple)}
MESSAGES = st.one_of([st.builds(form, *(VALUES[one] for one in layout)) for _, form, layout in FORMS])
"""Every message, with anything in it."""

FOLLOWED, FOLLOWER = 1, 2


@pytest.fixture(scope="module")
def records() -> Iterator[PeerFences]:
    """Of a real environment."""
    with tempfile.TemporaryDirectory() as directory, StatePage(Path(directory) / "state", create=True) as page:
        fences = PeerFences(Path(directory) / "fences", page, OWN, request_timeout_ns=600 * S)
        yield fences
        fences.close()


def connected(records: PeerFences) -> Fleet:
    """It follows the other one, and is followed by it."""
    fleet = Fleet(OwnMember(OWN, "own:1", b"m", 100 * S), records, FleetTimes(list_lag_ns=0))
    fleet.listed(["other:1"], 100 * S)
    fleet.dialled(FOLLOWED, "other:1", OTHER, 100 * S)
    fleet.accepted(FOLLOWER, OTHER, 100 * S)
    return fleet


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([FOLLOWED, FOLLOWER]), MESSAGES), max_size=6), st.booleans())
def test_anything_in_any_order_ends_a_connection_at_most(
    records: PeerFences, said: list[tuple[int, PeerMessage]], greeted: bool
) -> None:
    fleet = connected(records)
    good: list[tuple[int, PeerMessage]] = [(FOLLOWED, Welcome()), (FOLLOWED, Replayed(1))]
    good += [(FOLLOWER, Hello(b"m", b"other:1", b"", 0)), (FOLLOWER, LeaseAsked(1))]
    for link, message in [*(good if greeted else []), *said]:
        try:
            fleet.received(link, decode(encode(message)), 100 * S)
        except WireError:
            fleet.closed(link, 100 * S)
        for command in fleet.take():
            if isinstance(command, SendToPeer):
                decode(encode(command.message))
            if isinstance(command, ServeUntil):
                assert command.until_ns < 2**63, "it fits into the state page"
    fleet.tick(200 * S)


def test_a_lease_is_not_taken_for_longer_than_any_peer_gives_one(records: PeerFences) -> None:
    fleet = connected(records)
    for message in (Welcome(), Replayed(1), LeaseGiven(100 * S, 2**62, 1)):
        fleet.received(FOLLOWED, message, 100 * S)
    assert 0 < fleet.serves_until(100 * S) <= 200 * S
