"""A disk without room: writes and reads go on through the proxy, reads are right, and hits come back by themselves.

Files of the proxy's processes may not be written beyond their first pages, as on a full disk.
"""

from __future__ import annotations

import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.proxy import Proxy
from tests.testbed import objects
from tests.testbed.bed import Bed
from tests.testbed.client import MetastoreClient

HEAD_BYTES = 8192
"""LMDB's two meta pages, which are there already."""

LONG_BYTES = 10 << 20
"""Of a message that waits in a file: as a request, and as a reply to a client that wants it framed."""

NO_LIMIT = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)


@contextmanager
def full_disk(proxy: Proxy) -> Iterator[None]:
    """No file of the workers and the follower grows, or gets a page that it does not have."""
    children = [pid for pids in proxy.children().values() for pid in pids]
    for pid in children:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (HEAD_BYTES, resource.RLIM_INFINITY))
    yield
    assert children == [pid for pids in proxy.children().values() for pid in pids], "nobody died of it"
    for pid in children:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, NO_LIMIT)


@pytest.mark.real
def test_a_full_disk_stops_hits_and_nothing_else(bed: Bed, new_proxy: Callable[..., Proxy], unique_name: str) -> None:
    assert signal.getsignal(signal.SIGXFSZ) == signal.SIG_IGN, "as in every process of Python"
    proxy = new_proxy(bed.shared("embedded"), settings={"WORKERS": "2"})
    with MetastoreClient(*proxy.address) as writer, MetastoreClient(*proxy.address) as reader:
        objects.create_database(writer, unique_name)
        table = objects.create_table(writer, objects.table(unique_name, "t"))
        proxy.wait(lambda: reader.get_table(unique_name, "t") and proxy.hits() > 0, "served from the cache")
        with full_disk(proxy):
            for number in range(20):
                table.parameters["number"] = str(number)
                writer.alter_table(unique_name, "t", table)
                assert reader.get_table(unique_name, "t").parameters["number"] == str(number)
                with MetastoreClient(*proxy.address) as another:
                    assert another.get_table(unique_name, "t").parameters["number"] == str(number)
            assert any(reason == "unfenced" for _, _, reason in proxy.requests())
            table.parameters["long"] = "x" * LONG_BYTES
            writer.alter_table(unique_name, "t", table)
            with MetastoreClient(*proxy.address, framed=True) as framed:
                read = framed.get_table(unique_name, "t")
                assert read.parameters["long"] == table.parameters["long"], "a frame begins with its length"
            del table.parameters["long"]
            writer.alter_table(unique_name, "t", table)
        before = proxy.hits()
        proxy.wait(lambda: reader.get_table(unique_name, "t") and proxy.hits() > before, "served again")
        assert reader.get_table(unique_name, "t").parameters["number"] == "19"
