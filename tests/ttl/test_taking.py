"""What is due is taken in short steps: each entry costs a commit."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from time import monotonic_ns

from hms_cache_proxy.budget import Budgets
from hms_cache_proxy.methods.decision import Forward, Serve
from hms_cache_proxy.methods.ttl.looking import Reload
from hms_cache_proxy.methods.ttl.refreshing import DueEntries
from hms_cache_proxy.server.refresher import Refresher
from hms_cache_proxy.upstream.endpoints import Endpoints
from tests.ttl.bench import Bench, listing, opened

ENTRIES = 30


class Turns(DueEntries):
    """Notes in which turn of the loop each step is taken."""

    def __init__(self) -> None:
        super().__init__(lambda: None)
        self.now = 0
        self.of_steps: list[int] = []

    async def count(self) -> None:
        while True:
            self.now += 1
            await asyncio.sleep(0)

    def take(self) -> Iterator[Reload | None]:
        for step in super().take():
            self.of_steps.append(self.now)
            yield step


async def taken(due: Turns, bench: Bench) -> None:
    """Nobody answers, which does not matter here."""
    memory = Budgets(1 << 20, 1 << 20).memory
    nobody = Endpoints([("127.0.0.1", 1)])
    refresher = Refresher(nobody, bench.metrics, connect_timeout_s=5, request_timeout_s=5, memory=memory)
    tasks = [asyncio.create_task(due.count()), asyncio.create_task(refresher.run(due))]
    refresher.wake()
    while len(due.of_steps) < ENTRIES:
        await asyncio.sleep(0.01)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


def test_others_have_their_turn_after_each_step(tmp_path: Path) -> None:
    with opened(tmp_path, {"ttl.refresh_interval": "0s"}) as bench:
        due = bench.dispatcher.due = Turns()
        for number in range(ENTRIES):
            asked = {"db_name": b"d%d" % number}
            forward = bench.asked(bench.session, "get_all_tables", **asked)
            assert isinstance(forward, Forward)
            forward.pending.reply_done(bench.session, listing([b"t"]), monotonic_ns())
            assert isinstance(bench.asked(bench.session, "get_all_tables", **asked), Serve)
        asyncio.run(taken(due, bench))
    assert len(set(due.of_steps)) == ENTRIES
