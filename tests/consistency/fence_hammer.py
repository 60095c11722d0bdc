"""Processes that hammer on the fences; run as programs by test_fences.

`writer N`: begins and finishes fences on a target of its own as fast as it can, and says on a second page what holds.
`follower`: does tickets as fast as it can.
The second page: slot 1 + N is odd while writer N's fence is in flight and its `begin` has returned; slot 0 says stop.
"""

from __future__ import annotations

import os
import random
import sys
import time
from pathlib import Path

from hms_cache_proxy.cache.state import Slot, StatePage
from hms_cache_proxy.consistency.fences import FenceStore

STOP = 100  # slots of the second page, beyond those that have names
FIRST_WRITER = 101


def target(number: int) -> bytes:
    return b"thive\0db\0table%d" % number


def write(store: FenceStore, said: StatePage, number: int) -> None:
    mine, slot, turn = target(number), FIRST_WRITER + number, 0
    while not said[STOP]:
        fence = store.begin([mine], os.getpid())
        turn += 1
        said[slot] = turn  # odd: begin has returned
        time.sleep(random.uniform(0, 0.001))
        turn += 1
        said[slot] = turn  # even: finish may have happened
        store.finish(fence)
        if turn % 3 == 0:
            store.ticket([mine])


def follow(store: FenceStore, page: StatePage, said: StatePage) -> None:
    while not said[STOP]:
        last, _ = store.pending_tickets()
        page[Slot.DONE_TICKET] = last  # where the cache's commit would be
        store.done(last)
        store.expire(0)


def main() -> None:
    root = Path(sys.argv[1])
    with StatePage(root / "state") as page, StatePage(root / "said") as said:
        store = FenceStore(root / "fences", page)
        if sys.argv[2] == "writer":
            write(store, said, int(sys.argv[3]))
        else:
            follow(store, page, said)
        store.close()


if __name__ == "__main__":
    main()
