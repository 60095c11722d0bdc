"""`python -m tests.torture.attackers WHAT SEED PORT UPSTREAM HTTP DATABASE SLOWDOWN`: one client of a proxy, for a few
seconds.

`UPSTREAM` is the port at which the proxy reaches its metastore, `HTTP` that of its metrics, `DATABASE` that of its
steady client, `SLOWDOWN` that of the machine (slowdown.py). What is printed is wrong.
Must not know: that faults are scheduled. The table of slow readers and of huge lists is made by `prepared`.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError

from hive_metastore.ttypes import (
    Database,
    LockComponent,
    LockLevel,
    LockRequest,
    LockType,
    Partition,
    UnlockRequest,
)
from thrift.Thrift import TException

from hms_cache_proxy.metrics import FLUSH_INTERVAL_S
from tests.ops.attacks import attack
from tests.proxy import Proxy
from tests.testbed import objects
from tests.testbed.client import MetastoreClient
from tests.testbed.processes import wait_until
from tests.testbed.raw import RawConnection, encode_call
from tests.torture.budget import connections as upstream_connections
from tests.torture.steady import METHOD, QUIET
from tests.torture.world import UPSTREAM_IDLE_S

DATABASE, TABLE, PARTITIONS = "crowd", "large", 3000
CONNECTIONS, READERS, NAMES, EMPTY, MUTATED = 400, 10, 30_000, 20_000, 100
RESTING = 70
"""Upstream connections that well-behaved clients and the proxy itself may have at most."""
LONG, LONG_BYTES = 10, 24 << 20
LOCKERS, LOCKS_S = 6, 3.0
LISTERS, LISTS_S = 24, 3.0
EQUAL = 40


@dataclass(frozen=True, slots=True)
class Attacked:
    """A proxy."""

    port: int
    upstream: int
    http: int
    steady: str  # the database of its steady client
    slowdown: float = 1.0

    @property
    def proxy(self) -> Proxy:
        """To ask for its metrics: it runs already."""
        return Proxy(Path(), "", port=self.port, http_port=self.http)


def prepared(address: tuple[str, int]) -> None:
    """The table that listings are asked of."""
    with MetastoreClient(*address) as client:
        client.create_database(Database(name=DATABASE))
        made = objects.create_table(client, objects.table(DATABASE, TABLE, partition_keys=[("n", "string")]))
        objects.add_partitions(client, made, ([str(number)] for number in range(PARTITIONS)))


def connections(at: Attacked, _: random.Random) -> None:
    """Many that ask the metastore for something, and then nothing any more."""
    request = encode_call("getVersion")
    with ExitStack() as stack:
        idle = [stack.enter_context(RawConnection("127.0.0.1", at.port)) for _ in range(CONNECTIONS)]
        for one in idle:
            one.send(request)
        for one in idle:
            with suppress(ConnectionError, TimeoutError):
                one.receive()
        soon_s = round((UPSTREAM_IDLE_S + 3) * at.slowdown, 1)
        if not wait_until(lambda: upstream_connections(at.upstream) <= RESTING, soon_s):
            resting = upstream_connections(at.upstream)
            print(f"{resting} connections to the metastore {soon_s} s after clients fell silent")


def slow_readers(at: Attacked, _chance: random.Random) -> None:
    """A large listing each, of which a little is read at a time."""
    request = encode_call("get_partitions", DATABASE, TABLE, -1)
    with ExitStack() as stack:
        readers = [stack.enter_context(RawConnection("127.0.0.1", at.port)) for _ in range(READERS)]
        for reader in readers:
            reader.send(request)
        for _ in range(15):
            for reader in readers:
                with suppress(ConnectionError, TimeoutError):  # too slow, it was told; or nothing came
                    reader.socket.recv(4096)
            time.sleep(0.2)


def huge_lists(at: Attacked, _: random.Random) -> None:
    """Thirty thousand names, by some clients at once, again and again; partitions without values.

    These have a table: what has none is a write to anything, and others' reads have to wait for its end."""
    empty = encode_call("add_partitions", [Partition(dbName=DATABASE, tableName=TABLE) for _ in range(EMPTY)])
    names = encode_call("get_partitions_by_names", DATABASE, TABLE, [f"n={number}" for number in range(NAMES)])
    until_s = time.monotonic() + LISTS_S
    with ExitStack() as stack:
        asking = [stack.enter_context(RawConnection("127.0.0.1", at.port, framed=True)) for _ in range(LISTERS)]
        while time.monotonic() < until_s:
            for one in asking:
                one.send(names)
            for one in asking:
                one.receive()
        asking[0].send(empty)
        asking[0].receive()  # refused, as it may be


def long_requests(at: Attacked, _chance: random.Random) -> None:
    """Many megabytes each, but for the end."""
    request = encode_call("create_database", Database(name="long", description="x" * LONG_BYTES))[:-2]
    with ExitStack() as stack:
        for _ in range(LONG):
            with suppress(ConnectionError):  # there is no room for it
                stack.enter_context(RawConnection("127.0.0.1", at.port)).send(request)
        time.sleep(2)
        limits = {labels["budget"]: limit for labels, limit in samples(at, "hms_proxy_budget_limit_bytes")}
        for labels, taken in samples(at, "hms_proxy_budget_bytes"):
            if taken > limits[labels["budget"]]:
                print(f"{taken:g} bytes are taken of {labels}, of which there are {limits[labels['budget']]:g}")


def samples(at: Attacked, name: str) -> list[tuple[dict[str, str], float]]:
    """Of a metric; none where the proxy does not tell in time."""
    try:
        return at.proxy.samples(name)
    except (URLError, OSError):
        return []


def shared_locks(at: Attacked, _: random.Random) -> None:
    """What Hive's readers take, all the time, on the table that steady clients read."""
    until_s = time.monotonic() + LOCKS_S
    part = LockComponent(LockType.SHARED_READ, LockLevel.TABLE, at.steady, QUIET)
    before = outcomes(at, METHOD)
    with ThreadPoolExecutor() as pool:
        for done in [pool.submit(lock_until, at, part, until_s) for _ in range(LOCKERS)]:
            done.result()
    time.sleep(1.5 * FLUSH_INTERVAL_S)
    told = outcomes(at, METHOD) - before
    if told["fence"] + told["floor"] > told["hit"]:
        print(f"{dict(told)} reads of a table on which others take shared locks")


def lock_until(at: Attacked, part: LockComponent, until_s: float) -> None:
    with suppress(TException), MetastoreClient("127.0.0.1", at.port) as client:
        while time.monotonic() < until_s:
            lock = client.lock(LockRequest(component=[part], user="reader", hostname="torture"))
            client.unlock(UnlockRequest(lockid=lock.lockid))


def outcomes(at: Attacked, method: str) -> Counter[str]:
    """Calls by outcome and by reason, as far as the workers have told."""
    found = Counter[str]()
    for labels, count in samples(at, "hms_proxy_requests_total"):
        if labels["method"] == method:
            found[labels["outcome"]] += int(count)
            found[labels["reason"]] += int(count)
    return found


def same_misses(at: Attacked, chance: random.Random) -> None:
    """Many ask for the same at once, which nobody has asked for before. While the cache is unconfirmed (the machine is
    slow), nobody can share an answer: whether it is new enough for another reader, the next confirmation says."""
    request = encode_call("get_functions", DATABASE, f"f{chance.getrandbits(32)}*")
    before = outcomes(at, "get_functions")
    with ExitStack() as stack:
        asking = [stack.enter_context(RawConnection("127.0.0.1", at.port)) for _ in range(EQUAL)]
        for one in asking:
            one.send(request)
        for one in asking:
            one.receive()
    time.sleep(1.5 * FLUSH_INTERVAL_S)
    told = outcomes(at, "get_functions") - before
    if told["miss"] - told["unconfirmed"] > EQUAL / 4:
        print(f"{dict(told)} of {EQUAL} equal reads at once")


def mutated(at: Attacked, chance: random.Random) -> None:
    """As tests/ops/test_port_fuzz.py sends them."""
    for _ in range(MUTATED):
        with RawConnection("127.0.0.1", at.port, timeout_s=30) as connection:
            try:
                connection.send_bytes(attack(chance))
                connection.shutdown_write()
                connection.drain()
            except ConnectionError:
                continue  # closed before all of it was sent


ATTACKS: dict[str, Callable[[Attacked, random.Random], None]] = {
    "connections": connections,
    "long_requests": long_requests,
    "same_misses": same_misses,
    "shared_locks": shared_locks,
    "slow_readers": slow_readers,
    "huge_lists": huge_lists,
    "mutated": mutated,
}

if __name__ == "__main__":
    what, seed, port, upstream, http, steady, slowdown = sys.argv[1:]
    attacked = Attacked(int(port), int(upstream), int(http), steady, float(slowdown))
    ATTACKS[what](attacked, random.Random(int(seed)))
