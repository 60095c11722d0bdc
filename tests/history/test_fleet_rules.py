"""Each rule of the protocol between proxies, on real processes: a play shows an old value without it, not with it.

The names are those of the protocol's model. Of these rules, some cannot be left out alone, because another one holds
them; each of the two is left out alone (`HELD`), then both:

- `no_replay` (a new connection begins with the fences that stand) is held by `no_catching_up`: before a lease, its
  giver tells of each own fence of which it has not told.
- `old_lease` (a lease of the last connection is dropped) is held by `released_at_welcome`: what was held for a peer is
  released only at the end of a replay, so the old fences stand until the new ones do.
- `late_lease` (a hello ends the lease of the last process at its address) is held by `hello_not_required`: a lease is
  required of each incarnation that has said hello.
- `leave_short` (a start waits for the leases of an orderly stop) is held by the list's lag, which is longer than these
  leases. The play's fleet has a longer last lease, so that nothing but the rule holds.

`fence_after` leaves out catching up, too: who is told of a fence before a lease is told of it before the reply.
`running_step` is `ticket_after_snapshot` here, and `no_lease` is `lease_not_looked_at`: histories have them too.
`fence_after_own` is a weaker promise, which holds. The last five are rules of the code that the model does not have;
tests/peers/test_rules.py leaves them out, too.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.history import plays
from tests.history.stage import Stage
from tests.testbed.metastore import Metastore

Play = Callable[[Stage], int]

SHOWS: list[tuple[Play, str]] = [
    (plays.fence_under_way, "no_wait"),
    (plays.cut_off, "no_expiry"),
    (plays.parted, "lease_not_looked_at"),
    (plays.parted, "early_clock"),
    (plays.lease_under_way, "receiver_clock"),
    (plays.record_under_way, "overtaking"),
    (plays.read_in_pieces, "fences_first"),
    (plays.missed_while_cut_off, "no_owed"),
    (plays.step_under_way, "ticket_after_snapshot"),
    (plays.held_before_it_leaves, "early_ticket"),
    (plays.before_the_reply, "fence_after"),
    (plays.connected_meanwhile, "no_replay+no_catching_up"),
    (plays.welcomed_meanwhile, "old_lease+released_at_welcome"),
    (plays.killed_meanwhile, "no_hold"),
    (plays.killed_and_started, "forgets_leases"),
    (plays.killed_while_cut_off, "cold_restart"),
    (plays.succeeded, "late_lease+hello_not_required"),
    (plays.succeeded_out_of_reach, "leave_short"),
    (plays.unknown_to_the_reader, "no_welcome"),
    (plays.unknown_to_each_other, "early_hits"),
    (plays.joined_after_a_crash, "no_orphans"),
    (plays.over_unheard, "left_alone"),
    (plays.under_way_unheard, "no_catching_up"),
    (plays.handed_out_unheard, "no_notes"),
    (plays.without_room, "untold"),
    (plays.another_names_its_address, "named"),
]
"""Plays, and what is left out so that each shows the old value."""

HELD = [(play, alone) for play, planted in SHOWS for alone in planted.split("+") if alone != planted]
RIGHT = [(play, None) for play in dict.fromkeys(play for play, _ in SHOWS)]
CASES = [*((*case, 0) for case in SHOWS), *((*case, 1) for case in (*HELD, *RIGHT))]


@pytest.mark.real
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("play", "planted", "shown"), CASES, ids=lambda of: getattr(of, "__name__", str(of)))
def test_what_the_reader_is_shown(
    play: Play, planted: str | None, shown: int, new_metastore: Callable[..., Metastore], tmp_path: Path
) -> None:
    metastore = new_metastore("embedded")
    with ExitStack() as stack:
        assert play(Stage(stack, metastore, tmp_path, planted)) == shown
