"""Several proxies in front of one metastore, as processes: what was written through one is seen through all."""

from __future__ import annotations

import itertools
import os
import resource
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hive_metastore.ttypes import NoSuchObjectException

from hms_cache_proxy.cache.state import Slot
from hms_cache_proxy.peers.protocol import FleetTimes
from tests.lengths import by_tier
from tests.proxy import Proxy
from tests.testbed import objects
from tests.testbed.bed import Bed
from tests.testbed.client import MetastoreClient
from tests.testbed.fault_proxy import FaultProxy
from tests.testbed.metastore import Metastore
from tests.testbed.processes import free_port, wait_until

LEASES_S = 60.0
"""Until every proxy has its leases, on a busy machine."""
LEASE_S = 2.1
"""A lease, and 5 %: a write waits for one that is lost until that has run out, the first time."""
LATE_S = 1.0
"""So much later a process of a busy machine may notice it, or that it was acknowledged. Another lease is longer."""
WRITE_S = LEASE_S + 30.0
"""The first write after a member is lost: a lease, and the time of a busy machine."""
ROUNDS = int(by_tier(test=36, all=120, every=120))
"""A multiple of 12: after so many, writer, reader and change come in the same combinations again."""


def peers_of(proxy: Proxy) -> list[dict[str, Any]]:
    found = proxy.status()["peers"]
    assert isinstance(found, list)
    return found


def leased(proxies: Sequence[Proxy], others: int) -> None:
    """Every one of these has a lease of so many others."""
    for proxy in proxies:
        proxy.wait(
            lambda proxy=proxy: [one["lease_ms"] > 0 for one in peers_of(proxy)] == [True] * others, "leased", LEASES_S
        )


def listening(ports: Sequence[int], own: int, shown: Sequence[int] | None = None) -> dict[str, str]:
    """The settings of one proxy; `shown`: the ports in its list."""
    peers = ",".join(f"127.0.0.1:{port}" for port in (shown or ports))
    return {"PEERS": peers, "PEER_LISTEN": f"127.0.0.1:{ports[own]}", "PEER_SECRET": "s"}


def fleet(new_proxy: Callable[..., Proxy], metastore: Metastore, number: int) -> list[Proxy]:
    ports = [free_port() for _ in range(number)]
    proxies = [new_proxy(metastore, settings=listening(ports, own)) for own in range(number)]
    leased(proxies, number - 1)
    return proxies


def shown(proxy: Proxy, database: str, name: str) -> str | None:
    """The table's parameter, on a new connection; None: there is no such table."""
    with MetastoreClient(*proxy.address) as reader:
        try:
            return str(reader.get_table(database, name).parameters["n"])
        except NoSuchObjectException:
            return None


def peers_process(proxy: Proxy) -> int:
    """Its process id."""
    assert proxy.process is not None
    children = [
        pid for file in Path(f"/proc/{proxy.process.pid}/task").glob("*/children") for pid in file.read_text().split()
    ]
    (found,) = [pid for pid in children if "\0peers\0" in Path(f"/proc/{pid}/cmdline").read_text()]
    return int(found)


def none_is_missing(proxy: Proxy) -> bool:
    """Of two. A slow one may be without a lease for a while."""
    states = {labels["state"]: number for labels, number in proxy.samples("hms_proxy_peers")}
    return states["missing"] == 0 and sum(states.values()) == 2


@pytest.mark.real
def test_what_was_written_through_one_is_seen_through_all(
    bed: Bed, new_proxy: Callable[..., Proxy], unique_name: str
) -> None:
    proxies = fleet(new_proxy, bed.shared("embedded"), 3)
    with MetastoreClient(*proxies[0].address) as client:
        objects.create_database(client, unique_name)
        objects.create_table(client, objects.table(unique_name, "still", parameters={"n": "0"}))
    wrong = []
    for number in range(ROUNDS):
        writer, reader = proxies[number % 3], proxies[(number + 1 + number // 3 % 2) % 3]
        with MetastoreClient(*writer.address) as client:
            if number % 4 == 0:
                new = objects.table(unique_name, f"t{number // 4}", parameters={"n": str(number)})
                table = objects.create_table(client, new)
            elif number % 4 == 3:
                client.drop_table(unique_name, table.tableName, True)
            else:
                table.parameters["n"] = str(number)
                client.alter_table(unique_name, table.tableName, table)
        expected = None if number % 4 == 3 else str(number)
        found = shown(reader, unique_name, table.tableName)
        if found != expected:
            wrong.append((number, expected, found))
    assert wrong == []
    for proxy in proxies:
        proxy.wait(lambda proxy=proxy: none_is_missing(proxy), "with its peers")
        assert sum(number for _, number in proxy.samples("hms_proxy_peer_ack_seconds_count")) > ROUNDS / 3
        proxy.wait(lambda proxy=proxy: [one["lag_events"] for one in peers_of(proxy)] == [0, 0], "up to date")
    for proxy in proxies:
        enough = proxy.hits() + 18
        proxy.wait(
            lambda proxy=proxy, enough=enough: (
                {shown(proxy, unique_name, "still") for _ in range(9)} == {"0"} and proxy.hits() >= enough
            ),
            "answering from its cache",
            2 * LEASES_S,
        )
    for proxy in proxies:  # each tells the others of its hits
        proxy.wait(lambda proxy=proxy: all((one["hits"] or 0) > 0 for one in peers_of(proxy)), "told of hits")


@pytest.mark.real
def test_a_full_disk_does_not_end_the_peers_process(
    bed: Bed, new_proxy: Callable[..., Proxy], unique_name: str
) -> None:
    """It writes a report for /status every second. Each of its starts would cost a write the time of the leases."""
    ports = [free_port()]
    proxy = new_proxy(bed.shared("embedded"), settings=listening(ports, 0))
    report = proxy.directory / "data" / "peers.json"
    fresh, process = report.with_name("peers.json.new"), peers_process(proxy)
    proxy.wait(report.exists, "telling of its peers")
    resource.prlimit(process, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    for _ in range(2):
        before = fresh.stat().st_mtime_ns if fresh.exists() else 0
        proxy.wait(lambda before=before: fresh.exists() and fresh.stat().st_mtime_ns > before, "without room")
    with MetastoreClient(*proxy.address) as client:
        objects.create_database(client, unique_name)
    last = report.stat().st_mtime_ns
    resource.prlimit(process, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    proxy.wait(lambda: report.stat().st_mtime_ns > last, "telling of its peers again")
    assert peers_process(proxy) == process


@pytest.mark.real
def test_a_member_is_killed(bed: Bed, new_proxy: Callable[..., Proxy], unique_name: str) -> None:
    """The first write waits until its lease has run out, later ones do not wait for it. The others look at the database
    for each read until it is back."""
    first, second, third = fleet(new_proxy, bed.shared("embedded"), 3)
    with MetastoreClient(*first.address) as client:
        objects.create_database(client, unique_name)
        table = objects.create_table(client, objects.table(unique_name, "t", parameters={"n": "0"}))
        assert shown(second, unique_name, "t") == "0"
        waits = [waited_s(first)]
        third.kill()
        for number in range(1, 6):
            table.parameters["n"] = str(number)
            client.alter_table(unique_name, "t", table)
            waits.append(waited_s(first))
            assert shown(second, unique_name, "t") == str(number)
    of_first, *of_later = [after - before for before, after in itertools.pairwise(waits)]
    assert of_first < LEASE_S + LATE_S, (of_first, first.log_tail())
    assert max(of_later) < LATE_S, (of_later, first.log_tail())
    for proxy in (first, second):
        proxy.wait(lambda proxy=proxy: not proxy.may_hit(), "without its lease")
        assert [one["state"] for one in peers_of(proxy)].count("missing") == 1
        for _ in range(3):
            began_ns, relayed = time.monotonic_ns(), relayed_for_peers(proxy)
            assert shown(proxy, unique_name, "t") == "5"
            assert looked_ns(proxy) > began_ns or relayed_for_peers(proxy) > relayed
    third.start()
    leased([first, second, third], 2)
    for proxy in (first, second, third):
        proxy.wait(
            lambda proxy=proxy: hits_without_a_look(proxy, unique_name, "5"), "answering from its cache", LEASES_S
        )


def waited_s(proxy: Proxy) -> float:
    """How long writes through it have waited for its peers, in all."""
    proxy.wait_counted()
    return proxy.metric("hms_proxy_peer_wait_seconds_sum")


def relayed_for_peers(proxy: Proxy) -> float:
    return sum(number for (_, _, reason), number in proxy.requests().items() if reason == "peers")


def looked_ns(proxy: Proxy) -> int:
    """When the last look at the database began that is over."""
    return proxy.word(Slot.BEGAN_NS)


def hits_without_a_look(proxy: Proxy, database: str, expected: str) -> bool:
    """Is a read now a hit by the leases? It is right, however it is answered."""
    before, leases = proxy.hits(), proxy.may_hit()
    assert shown(proxy, database, "t") == expected
    return leases and proxy.may_hit() and proxy.hits() > before


@pytest.mark.real
def test_a_peers_process_is_stopped_and_killed(bed: Bed, new_proxy: Callable[..., Proxy], unique_name: str) -> None:
    """Workers decide by the words of the state page: writes, and replies that have an event's id, go on once every
    lease has run out."""
    first, second = fleet(new_proxy, bed.shared("embedded"), 2)
    pid = peers_process(first)
    with MetastoreClient(*first.address) as client:
        objects.create_database(client, unique_name)
        table = objects.create_table(client, objects.table(unique_name, "t", parameters={"n": "0"}))
        assert shown(second, unique_name, "t") == "0"
        for number, how in enumerate((signal.SIGSTOP, signal.SIGCONT, signal.SIGSTOP, signal.SIGKILL), 1):
            os.kill(pid, how)
            for again in range(3):
                table.parameters["n"] = f"{number}.{again}"
                began = time.monotonic()
                client.alter_table(unique_name, "t", table)
                client.get_current_notificationEventId()
                assert time.monotonic() - began < WRITE_S
                assert shown(second, unique_name, "t") == f"{number}.{again}"
    leased([first, second], 1)
    assert first.metric("hms_proxy_peer_wait_seconds_count", by="page") > 0
    assert shown(first, unique_name, "t") == shown(second, unique_name, "t") == "4.2"


@pytest.mark.real
def test_two_halves_of_a_partition_both_go_on(
    bed: Bed, new_proxy: Callable[..., Proxy], fault_proxy: Callable[[str, int], FaultProxy], unique_name: str
) -> None:
    metastore, ports = bed.shared("embedded"), [free_port(), free_port()]
    between = [fault_proxy("127.0.0.1", port) for port in ports]
    proxies = [
        new_proxy(metastore, settings=listening(ports, own, [ports[own], between[1 - own].port])) for own in range(2)
    ]
    leased(proxies, 1)
    with MetastoreClient(*proxies[0].address) as left, MetastoreClient(*proxies[1].address) as right:
        objects.create_database(left, unique_name)
        new = [objects.table(unique_name, name, parameters={"n": "0"}) for name in ("left", "right")]
        tables = [objects.create_table(client, table) for client, table in zip((left, right), new, strict=True)]
        for one in between:
            one.stall()
        for number in range(1, 5):
            for client, table in zip((left, right), tables, strict=True):
                table.parameters["n"] = str(number)
                client.alter_table(unique_name, table.tableName, table)
            for proxy in proxies:
                assert [shown(proxy, unique_name, name) for name in ("left", "right")] == [str(number)] * 2
        for one in between:
            one.restore()
    leased(proxies, 1)
    assert all(shown(proxy, unique_name, "left") == "4" for proxy in proxies)


def dialled_from(port: int) -> set[str]:
    """The local addresses of the connections that this machine has open to a port."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {row[1] for row in rows if row[2].endswith(f":{port:04X}") and row[3] == "01"}


@pytest.mark.real
def test_strict_proxies_stay_connected_while_nothing_is_written(bed: Bed, new_proxy: Callable[..., Proxy]) -> None:
    """They ask for no leases, and so hear nothing for longer than a connection with leases may be silent."""
    ports = [free_port(), free_port()]
    for own in range(2):
        new_proxy(bed.shared("embedded"), settings={**listening(ports, own), "CONSISTENCY": "strict"})
    assert wait_until(lambda: all(len(dialled_from(port)) == 1 for port in ports))
    before = [dialled_from(port) for port in ports]
    time.sleep(2.5 * FleetTimes().silence_ns / 1e9)
    assert [dialled_from(port) for port in ports] == before
