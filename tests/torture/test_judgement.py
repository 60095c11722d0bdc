"""When a recovery is late."""

from __future__ import annotations

import pytest

from tests.torture.faults import every
from tests.torture.pulse import Signs
from tests.torture.run import RECOVERY_S, Struck
from tests.torture.world import REQUEST_TIMEOUT_S

SOON = Signs({"read": 0.3, "write": 0.5, "hit": 0.6}, {})


def struck(hit_s: float | None, misses: dict[str, float], *, slowdown: float = 1.0) -> Struck:
    """A metastore was restarted; one proxy recovered soon, the other one so."""
    assert every(["restart_metastore"])["restart_metastore"].grace_s == 0
    other = Signs({"read": 0.3, "write": 0.5, "hit": hit_s}, misses)
    return Struck("restart_metastore", 1.0, 2.0, other.slowest_s, slowdown, [SOON, other])


@pytest.mark.parametrize(
    ("hit_s", "misses", "late"),
    [
        (RECOVERY_S - 0.1, {"miss starting": 9.0}, False),
        (RECOVERY_S + 0.1, {"miss starting": 9.0}, True),
        (RECOVERY_S + 0.1, {}, True),
        (RECOVERY_S + 0.1, {"miss fence": 9.0, "miss floor": 1.0}, False),
        (RECOVERY_S + 0.1, {"miss fence": 9.0, "miss unconfirmed": 1.0}, True),
        (RECOVERY_S + REQUEST_TIMEOUT_S + 0.1, {"miss fence": 9.0}, True),
        (None, {"miss fence": 9.0}, True),
    ],
)
def test_fences_alone_may_last_as_long_as_a_write(hit_s: float | None, misses: dict[str, float], late: bool) -> None:
    assert struck(hit_s, misses).late is late


def test_a_busy_machine_gets_more_time() -> None:
    assert struck(RECOVERY_S * 1.5, {"miss starting": 1.0}).late
    assert not struck(RECOVERY_S * 1.5, {"miss starting": 1.0}, slowdown=2.0).late
    assert struck(None, {}, slowdown=100.0).late
