"""What a refresh finds: objects that are gone, a metastore that lacks the method."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hive_metastore import ttypes  # type: ignore[import-untyped]  # generated
from thrift.transport.TTransport import TTransportException

from tests.proxy import Proxy
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore
from tests.ttl.conftest import ALWAYS, Recorded, add_partitions, create_table, until

VALUES = [["d1", "r"], ["d2", "r"]]
NAMES = ["dt=d1/region=r", "dt=d2/region=r"]


def test_what_is_gone_goes_with_the_refresh(recorded: Callable[..., Recorded], unique_name: str) -> None:
    """Without a ttl, too: else it would be given for ever."""
    world = recorded(TTL_TTL="never", TTL_REFRESH_INTERVAL="500ms")
    client, where = world.client, (unique_name, "t")
    create_table(world.direct, unique_name)
    add_partitions(world.direct, unique_name, VALUES)
    client.get_table(*where)
    client.get_database(unique_name)
    client.get_partition_by_name(*where, NAMES[0])
    assert len(client.get_partitions_by_names(*where, NAMES)) == 2
    world.direct.drop_partition_by_name(*where, NAMES[0], False)
    until(lambda: len(client.get_partitions_by_names(*where, NAMES)) == 1)
    with pytest.raises(ttypes.NoSuchObjectException):
        client.get_partition_by_name(*where, NAMES[0])
    world.direct.drop_database(unique_name, False, True)
    until(lambda: refused(lambda: client.get_table(*where)))
    until(lambda: refused(lambda: client.get_database(unique_name)))
    until(lambda: refused(lambda: client.get_partitions_by_names(*where, NAMES[1:])))
    assert world.proxy.metric("hms_proxy_ttl_refreshes_total", result="failed") == 0, "that it is gone is an answer"


def test_calls_that_the_metastore_lacks_are_refreshed_by_their_twins(
    hms42: Metastore, new_proxy: Callable[..., Proxy], unique_name: str
) -> None:
    """Hive 4.0.1 and later have no get_table and no get_table_objects_by_name."""
    proxy = new_proxy(hms42, settings={**ALWAYS, "TTL_REFRESH_INTERVAL": "500ms"}, store=False)
    with MetastoreClient(*proxy.address) as client, MetastoreClient(*hms42.address) as direct:
        create_table(direct, unique_name)
        table = client.get_table(unique_name, "t")
        assert client.get_table_objects_by_name(unique_name, ["t"])[0].owner == "o"
        table.owner = "changed elsewhere"
        direct.alter_table_with_environment_context(unique_name, "t", table, ttypes.EnvironmentContext())
        until(lambda: client.get_table(unique_name, "t").owner == "changed elsewhere")
        until(lambda: client.get_table_objects_by_name(unique_name, ["t"])[0].owner == "changed elsewhere")
    until(lambda: proxy.metric("hms_proxy_ttl_refreshes_total", kind="table", result="loaded") >= 2)
    assert proxy.metric("hms_proxy_ttl_refreshes_total", result="failed") == 0


def test_no_entry_is_given_past_its_time_while_the_metastore_is_gone(
    recorded: Callable[..., Recorded], unique_name: str
) -> None:
    """Within its time it is, though every refresh fails."""
    world = recorded(TTL_TTL="3s", TTL_REFRESH_INTERVAL="300ms")
    create_table(world.direct, unique_name)
    began = time.monotonic()
    world.client.get_table(unique_name, "t")
    loaded = time.monotonic()
    world.asked.hold()  # it takes requests and answers none
    given: list[float] = []
    with MetastoreClient(*world.proxy.address, timeout_s=2) as client:
        while True:
            asked = time.monotonic()
            try:
                client.get_table(unique_name, "t")
            except TTransportException:
                break
            given.append(asked)
            time.sleep(0.05)
    world.asked.let_go()
    assert world.client.get_table(unique_name, "t").owner == "o", "it waits for the load that is under way"
    assert any(asked > began + 1 for asked in given), "refreshes have been due"
    assert max(given) <= loaded + 3.0


def refused(read: Callable[[], object]) -> bool:
    try:
        read()
    except ttypes.NoSuchObjectException:
        return True
    return False


def test_what_is_compared_is_counted_and_the_metastores_is_given(
    recorded: Callable[..., Recorded], unique_name: str
) -> None:
    world, where = recorded(TTL_VALIDATION_PERCENTAGE="100"), (unique_name, "t")
    create_table(world.direct, unique_name)
    add_partitions(world.direct, unique_name, VALUES)
    reads: list[Callable[[], int]] = [
        lambda: int(world.client.get_partitions_by_names(*where, NAMES)[0].lastAccessTime),
        lambda: int(world.client.get_partition_by_name(*where, NAMES[0]).lastAccessTime),
    ]
    for number, read in enumerate(reads):
        read()
        partition = world.direct.get_partition_by_name(*where, NAMES[0])
        partition.lastAccessTime = 77 + number
        world.direct.alter_partition(*where, partition)
        assert read() == 77 + number

    def counted(result: str) -> float:
        return world.proxy.metric("hms_proxy_ttl_validations_total", result=result)

    until(lambda: (counted("different"), counted("same")) == (2, 2))
