"""How long a read waits: as long as relayed reads take, within limits."""

from __future__ import annotations

from hms_cache_proxy.methods.decision import ClientSession
from hms_cache_proxy.methods.patience import LONG_NS, SHORT_NS, Patience


def test_as_long_as_relayed_reads_take() -> None:
    patience = Patience()
    assert patience.for_look(1) == SHORT_NS
    for took_ns, least, most in ((SHORT_NS // 10, SHORT_NS, SHORT_NS), (4 * SHORT_NS, 3.5 * SHORT_NS, 4 * SHORT_NS)):
        for _ in range(30):
            patience.relayed(took_ns)
        assert least <= patience.for_look(1) <= most
    patience.relayed(3600 * 10**9)
    assert patience.for_look(1) == LONG_NS, "one that hung, and never longer than this"
    for _ in range(300):
        patience.relayed(0)
    assert patience.for_look(1) == SHORT_NS


def test_one_that_waited_in_vain_is_enough_until_the_next_step() -> None:
    patience = Patience()
    for _ in range(30):
        patience.relayed(LONG_NS)
    patience.in_vain(ClientSession(), 1, 0)
    assert patience.for_look(1) == 0
    assert patience.for_look(2) == patience.for_step(ClientSession(), 2, 0, look=True) > SHORT_NS
