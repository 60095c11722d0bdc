"""`python -m tests.torture.attackers WHAT PORT SEED`: one misbehaving client of a proxy, for a few seconds.

Must not know: that faults are scheduled. The table of slow readers and of huge lists is made by `prepared`.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress

from hive_metastore.ttypes import Database, Partition
from thrift.Thrift import TException

from tests.ops.attacks import attack
from tests.testbed import objects
from tests.testbed.client import MetastoreClient
from tests.testbed.raw import RawConnection, encode_call

DATABASE, TABLE, PARTITIONS = "crowd", "large", 3000
CONNECTIONS, READERS, NAMES, EMPTY, MUTATED = 400, 10, 30_000, 20_000, 100


def prepared(address: tuple[str, int]) -> None:
    """The table that listings are asked of."""
    with MetastoreClient(*address) as client:
        client.create_database(Database(name=DATABASE))
        made = objects.create_table(client, objects.table(DATABASE, TABLE, partition_keys=[("n", "string")]))
        objects.add_partitions(client, made, ([str(number)] for number in range(PARTITIONS)))


def connections(port: int, _: random.Random) -> None:
    """Many that say nothing."""
    with ExitStack() as stack:
        for _ in range(CONNECTIONS):
            stack.enter_context(RawConnection("127.0.0.1", port))
        time.sleep(2)


def slow_readers(port: int, _: random.Random) -> None:
    """A large listing each, of which a little is read at a time."""
    request = encode_call("get_partitions", DATABASE, TABLE, -1)
    with ExitStack() as stack:
        readers = [stack.enter_context(RawConnection("127.0.0.1", port)) for _ in range(READERS)]
        for reader in readers:
            reader.send(request)
        for _ in range(15):
            for reader in readers:
                with suppress(ConnectionError):  # too slow, it was told
                    reader.socket.recv(4096)
            time.sleep(0.2)


def huge_lists(port: int, _: random.Random) -> None:
    """Thirty thousand names; partitions that are nothing at all."""
    names = [f"n={number}" for number in range(NAMES)]
    for call in (
        lambda client: client.get_partitions_by_names(DATABASE, TABLE, names),
        lambda client: client.add_partitions([Partition() for _ in range(EMPTY)]),
    ):
        with MetastoreClient("127.0.0.1", port) as client:
            try:
                call(client)
            except TException:
                continue  # refused, as it may be


def mutated(port: int, chance: random.Random) -> None:
    """As tests/ops/test_port_fuzz.py sends them."""
    for _ in range(MUTATED):
        with RawConnection("127.0.0.1", port, timeout_s=30) as connection:
            try:
                connection.send_bytes(attack(chance))
                connection.shutdown_write()
                connection.drain()
            except ConnectionError:
                continue  # closed before all of it was sent


ATTACKS: dict[str, Callable[[int, random.Random], None]] = {
    "connections": connections,
    "slow_readers": slow_readers,
    "huge_lists": huge_lists,
    "mutated": mutated,
}

if __name__ == "__main__":
    ATTACKS[sys.argv[1]](int(sys.argv[2]), random.Random(int(sys.argv[3])))
