"""What the peers' process does by itself, without peers."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import structlog
import uvloop

from hms_cache_proxy.cache.state import Slot, StatePage, boottime_ns
from hms_cache_proxy.cache.writer import CacheWriter
from hms_cache_proxy.config import Config, load, paths
from hms_cache_proxy.consistency import replacement
from hms_cache_proxy.consistency.fences import FenceStore
from hms_cache_proxy.peers.driver import PeersProcess
from hms_cache_proxy.peers.fleet import Fleet, OwnMember
from hms_cache_proxy.peers.protocol import FleetTimes
from tests.cache.records import IDENTITY


def config_of(directory: Path, peers: str) -> Config:
    given = {"upstream": "thrift://127.0.0.1:1", "store": "thrift", "data_dir": str(directory)}
    return load(cli={**given, "peers": peers, "peer_secret": "s"})


@pytest.mark.parametrize("name", ["nowhere.invalid", "x" * 70 + ".invalid"])
def test_a_list_that_cannot_be_looked_up_is_said_once(tmp_path: Path, name: str) -> None:
    """DNS may not answer for a day, and the list is looked up every few seconds."""
    config = config_of(tmp_path, f"dns+{name}:9086")

    async def look_up() -> list[tuple[list[str], bool]]:
        process = PeersProcess(config, page)
        found = [await process._addresses() for _ in range(3)]
        process._follower.close()
        process._fences.close()
        return found

    with StatePage(paths.state(config), create=True) as page, structlog.testing.capture_logs() as lines:
        assert uvloop.run(look_up()) == [([], False)] * 3
    assert [(line["event"], line["address"]) for line in lines] == [("peers cannot be looked up", name)]


@pytest.mark.parametrize("started", ["before", "after"])
def test_new_fences_do_not_wait_for_the_leases_of_peers(tmp_path: Path, started: str) -> None:
    """Until a process has joined them, they fence everything. Without a lease, reads look at the database, and a lease
    begins with what peers have told of. The process may have been started when its pid was written into them, and have
    opened nothing else."""
    config = config_of(tmp_path, "127.0.0.1:1")

    async def states() -> set[str]:
        made = [PeersProcess(config, page)] if started == "before" else []
        if not made:
            FenceStore(paths.fences(config), page).close()
        page[Slot.FENCES_DAMAGED] = page[Slot.FENCES_FILE]
        replacement.replace(paths.fences(config), page, workers=[os.getpid()], request_timeout_ns=10**12, until_ns=0)
        process = made.pop() if made else PeersProcess(config, page)
        own = OwnMember(b"o" * 16, "own:1", b"m", boottime_ns())
        process._fleet = Fleet(own, process._fences, FleetTimes(list_lag_ns=0))
        process._renew(process._fleet, boottime_ns())
        found = set(process._fences.standing().values())
        process._follower.close()
        process._fences.close()
        return found

    with StatePage(paths.state(config), create=True) as page:
        assert uvloop.run(states()) == {"finite"}


def test_a_cache_that_belongs_to_another_metastore_is_noticed(tmp_path: Path) -> None:
    """A metastore's database has an id only once somebody has asked for it: the cache may have been made before that.
    Who starts later knows it, and would be refused for ever."""
    config = config_of(tmp_path, "127.0.0.1:1")

    async def moves() -> tuple[bool, ...]:
        process = PeersProcess(config, page)
        found = []
        try:
            assert process._belongs_to() is None, "there is no cache"
            for uuid in ("", "", "a"):
                cache = paths.cache(config)
                with closing(CacheWriter.open(cache, page, replace(IDENTITY, database_uuid=uuid))):
                    process._own = process._own or process._belongs_to()  # type: ignore[assignment]
                    found.append(process._belongs_elsewhere())
        finally:
            process._follower.close()
            process._fences.close()
        return tuple(found)

    with StatePage(paths.state(config), create=True) as page:
        assert uvloop.run(moves()) == (False, False, True)
