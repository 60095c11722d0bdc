"""The metastore is away and its database is not: hits go on, for clients too that come only now."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.proxy import Proxy
from tests.testbed.client import MetastoreClient
from tests.testbed.fault_proxy import FaultProxy
from tests.testbed.metastore import Metastore
from tests.testbed.objects import create_database, create_table, table


@pytest.mark.real
@pytest.mark.parametrize("fault", ["refuse", "stall"])
def test_a_new_client_logs_in_and_is_served(
    hms42: Metastore,
    new_proxy: Callable[..., Proxy],
    fault_proxy: Callable[..., FaultProxy],
    unique_name: str,
    fault: str,
) -> None:
    with MetastoreClient(*hms42.address) as client:
        create_database(client, unique_name)
        create_table(client, table(unique_name, "t"))
    away = fault_proxy(*hms42.address)
    proxy = new_proxy(hms42, upstream=f"thrift://127.0.0.1:{away.port}")
    getattr(away, fault)()
    for user in ("alice", "bob"):
        with MetastoreClient(*proxy.address) as client:
            assert client.set_ugi(user, ["g"]) == ["g"]
            assert client.get_table(unique_name, "t").tableName == "t"
    proxy.wait(lambda: proxy.status()["upstream"]["reachable"] is False, "told")
    (told,) = proxy.status()["upstream"]["all"]
    assert (told["uri"], told["reachable"]) == (f"thrift://127.0.0.1:{away.port}", False) and told["since_s"] < 60
    assert proxy.requests()["set_ugi", "relay", "outage"] == 2
    away.restore()
    with MetastoreClient(*proxy.address) as client:
        client.set_ugi("carol", ["g"])
        assert unique_name in client.get_all_databases()
