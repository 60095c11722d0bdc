"""What the peers' process does by itself, without peers."""

from __future__ import annotations

from pathlib import Path

import pytest
import structlog
import uvloop

from hms_cache_proxy.cache.state import StatePage
from hms_cache_proxy.config import load, paths
from hms_cache_proxy.peers.driver import PeersProcess


@pytest.mark.parametrize("name", ["nowhere.invalid", "x" * 70 + ".invalid"])
def test_a_list_that_cannot_be_looked_up_is_said_once(tmp_path: Path, name: str) -> None:
    """DNS may not answer for a day, and the list is looked up every few seconds."""
    given = {"upstream": "thrift://127.0.0.1:1", "store": "thrift", "data_dir": str(tmp_path)}
    config = load(cli={**given, "peers": f"dns+{name}:9086", "peer_secret": "s"})

    async def look_up() -> list[tuple[list[str], bool]]:
        process = PeersProcess(config, page)
        found = [await process._addresses() for _ in range(3)]
        process._follower.close()
        process._fences.close()
        return found

    with StatePage(paths.state(config), create=True) as page, structlog.testing.capture_logs() as lines:
        assert uvloop.run(look_up()) == [([], False)] * 3
    assert [(line["event"], line["address"]) for line in lines] == [("peers cannot be looked up", name)]
