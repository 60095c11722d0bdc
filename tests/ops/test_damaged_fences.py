"""The fences are damaged under a running proxy: writes go on, reads are right, hits come back by themselves."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.proxy import Proxy
from tests.testbed import objects
from tests.testbed.bed import Bed
from tests.testbed.client import MetastoreClient

BACK_S = 180
"""Until there are hits again, on a busy machine."""


def emptied(file: Path) -> None:
    os.truncate(file, 0)


def cut_off(file: Path) -> None:
    """In the middle of a page that is in use."""
    os.truncate(file, 2 * 4096 + 100)


def zeroed(file: Path) -> None:
    """As long as before, without its pages."""
    length = file.stat().st_size
    os.truncate(file, 2 * 4096)
    os.truncate(file, length)


def removed(file: Path) -> None:
    shutil.rmtree(file.parent)


@pytest.mark.real
@pytest.mark.parametrize("damage", [emptied, cut_off, zeroed, removed])
def test_hits_come_back_and_nothing_is_lost_meanwhile(
    bed: Bed, new_proxy: Callable[..., Proxy], unique_name: str, damage: Callable[[Path], None]
) -> None:
    proxy = new_proxy(bed.shared("embedded"), settings={"WORKERS": "2"})
    children = proxy.children()
    with MetastoreClient(*proxy.address) as writer, MetastoreClient(*proxy.address) as reader:
        objects.create_database(writer, unique_name)
        table = objects.create_table(writer, objects.table(unique_name, "t"))
        proxy.wait(lambda: reader.get_table(unique_name, "t") and proxy.hits() > 0, "served from the cache")
        for again in range(2):
            damage(proxy.directory / "data" / "fences" / "data.mdb")
            began, before, number = time.monotonic(), proxy.hits(), 0
            while proxy.hits() < before + 20:
                assert time.monotonic() < began + BACK_S, proxy.status()
                number += 1
                table.parameters["number"] = f"{again}.{number}"
                writer.alter_table(unique_name, "t", table)
                for _ in range(10):
                    assert reader.get_table(unique_name, "t").parameters["number"] == f"{again}.{number}"
                with MetastoreClient(*proxy.address) as another:
                    assert another.get_table(unique_name, "t").parameters["number"] == f"{again}.{number}"
                    time.sleep(0.1)
                    assert another.get_table(unique_name, "t").parameters["number"] == f"{again}.{number}"
            assert proxy.status()["fences"] == {"usable": True, "replaced": again + 1}
    assert children == proxy.children(), "nobody died of it"
    assert "the fences are damaged" in proxy.log_tail(1000)
