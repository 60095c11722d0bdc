"""The metastore is away and its database is not: hits go on, for clients too that come only now."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hive_metastore.ttypes import GetTableRequest
from sqlalchemy import make_url
from thrift.Thrift import TApplicationException

from tests.proxy import Proxy
from tests.testbed.client import MetastoreClient
from tests.testbed.fault_proxy import FaultProxy
from tests.testbed.metastore import Metastore
from tests.testbed.objects import create_database, create_table, table


def is_hit(proxy: Proxy, client: MetastoreClient, database: str) -> bool:
    """Whether the cache answers a read of the table t now."""
    before = proxy.requests().get(("get_table", "hit", ""), 0)
    assert client.get_table(database, "t").tableName == "t"
    return proxy.requests().get(("get_table", "hit", ""), 0) == before + 1


@pytest.mark.real
def test_what_nobody_confirms_is_served_where_that_is_allowed(
    hms42: Metastore,
    new_proxy: Callable[..., Proxy],
    fault_proxy: Callable[..., FaultProxy],
    unique_name: str,
) -> None:
    assert hms42.database is not None
    with MetastoreClient(*hms42.address) as client:
        create_database(client, unique_name)
        create_table(client, table(unique_name, "t"))
        create_table(client, table(unique_name, "other"))
    url = make_url(hms42.database.reader_url)
    assert url.host is not None and url.port is not None
    metastore, database = fault_proxy(*hms42.address), fault_proxy(url.host, url.port)
    proxy = new_proxy(
        hms42,
        upstream=f"thrift://127.0.0.1:{metastore.port}",
        store_url=url.set(host="127.0.0.1", port=database.port).render_as_string(hide_password=False),
        settings={"SERVE_STALE": "1h", "MAX_UNCONFIRMED_MS": "5000"},
    )
    with MetastoreClient(*proxy.address) as client:
        # A read that was relayed would leave this client a floor, which nothing lifts in an outage.
        proxy.wait(lambda: is_hit(proxy, client, unique_name), "answering from the cache")
        metastore.refuse()
        database.refuse()
        proxy.wait(lambda: proxy.status()["mode"] == "stale", "in an outage")
        proxy.wait(lambda: proxy.metric("hms_proxy_upstream_circuit") == 1, "sick")
        for name in ("t", "other", "t"):
            assert client.get_table(unique_name, name).tableName == name
        ids = f"5:{unique_name}.t:9223372036854775807::"
        with pytest.raises(TApplicationException, match="no metastore can be reached"):
            request = GetTableRequest(dbName=unique_name, tblName="t", catName="hive", id=1, validWriteIdList=ids)
            client.get_table_req(request)
    assert proxy.requests()["get_table", "hit", "stale"] == 3
    metastore.restore()
    database.restore()
    proxy.wait(lambda: proxy.status()["mode"] == "cache", "confirmed")
    with MetastoreClient(*proxy.address) as client:
        assert client.get_table(unique_name, "t").tableName == "t"
    assert proxy.requests()["get_table", "hit", "stale"] == 3


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
