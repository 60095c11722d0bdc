"""All long work of a worker has one budget; clients take turns."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from hms_cache_proxy.server import turns
from hms_cache_proxy.server.turns import Turns


def ran(work: dict[str, list[tuple[str, int]]], looks: int) -> list[str]:
    """What runs in so many turns of the loop: for each address the name and the number of slices of its clients; a dot
    for each turn, in which the sockets are looked at."""
    order: list[str] = []

    async def run() -> None:
        shared = Turns()

        def slice_of(address: str, name: str, left: int) -> None:
            order.append(name)
            if left > 1:
                shared.add(address, partial(slice_of, address, name, left - 1))

        for address, clients in work.items():
            for name, number in clients:
                shared.add(address, partial(slice_of, address, name, number))
        for _ in range(looks):
            await asyncio.sleep(0)
            order.append(".")

    asyncio.run(run())
    return order


def test_one_slice_between_two_looks_at_the_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "BUDGET_NS", 0)
    order = "".join(ran({"": [(name, 3) for name in "abcde"]}, 20))
    assert order.startswith("a.b.c.d.e.a.b.c.d.e.a.b.c.d.e.")


def test_short_slices_share_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "BUDGET_NS", 10**10)
    assert "".join(ran({"": [("a", 2), ("b", 2)]}, 3)) == "ab.ab.."


def test_addresses_take_turns_whatever_their_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "BUDGET_NS", 0)
    order = "".join(ran({"batch": [(name, 9) for name in "abc"], "one": [("z", 9)]}, 12)).replace(".", "")
    assert order.startswith("azbzczaz")
