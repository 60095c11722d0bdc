"""Lock files are cut off or removed under a running proxy. A process that touches one that is cut off dies of it
(SIGBUS). What must hold: answers are right, new processes can start, and hits come back by themselves."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from thrift.transport.TTransport import TTransportException

from tests.proxy import Proxy
from tests.testbed import objects
from tests.testbed.bed import Bed
from tests.testbed.client import MetastoreClient

BACK_S = 180
"""Until there are hits again, on a busy machine."""


def emptied(file: Path) -> None:
    os.truncate(file, 0)


def halved(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def removed(file: Path) -> None:
    file.unlink()


@pytest.mark.parametrize("damage", [emptied, halved, removed])
@pytest.mark.parametrize("environment", ["cache", "fences", "ttl"])
def test_hits_come_back(
    bed: Bed, new_proxy: Callable[..., Proxy], unique_name: str, environment: str, damage: Callable[[Path], None]
) -> None:
    ttl = {"STORE": "none", "TTL_ENABLED": "true", "TTL_TTL": "1h"} if environment == "ttl" else {}
    proxy = new_proxy(bed.shared("embedded"), settings={"WORKERS": "2", **ttl}, store=not ttl)
    with MetastoreClient(*proxy.address) as client:
        objects.create_database(client, unique_name)
        table = objects.create_table(client, objects.table(unique_name, "t"))
        proxy.wait(lambda: client.get_table(unique_name, "t") and proxy.hits() > 0, "served from the cache")
    damage(proxy.directory / "data" / environment / "lock.mdb")
    began, before, number = time.monotonic(), proxy.hits(), 0
    while proxy.hits() < before + 20:
        assert time.monotonic() < began + BACK_S, proxy.status()
        number += 1
        table.parameters["number"] = str(number)
        try:
            with MetastoreClient(*proxy.address) as writer, MetastoreClient(*proxy.address) as reader:
                writer.alter_table(unique_name, "t", table)
                for _ in range(5):
                    assert reader.get_table(unique_name, "t").parameters["number"] == str(number)
                    time.sleep(0.05)
        except TTransportException:  # its worker has died
            time.sleep(0.1)
    assert not list((proxy.directory / "data" / environment).glob("condemned"))
    assert ttl or list((proxy.directory / "data").glob(f"{environment}.bad-*"))
    assert "its lock file" in proxy.log_tail(1000)
    attempts, took_s = proxy.log_tail(1000).count("step failed"), time.monotonic() - began
    assert attempts < 20 + took_s, "they are a second apart"
