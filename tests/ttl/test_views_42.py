"""TTL mode before Hive 4.2, whose materialized views repeat their source tables."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
from hive_metastore import ttypes  # type: ignore[import-untyped]  # generated

from tests.proxy import Proxy
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore
from tests.ttl.conftest import ALWAYS, create_table

READS: dict[str, Callable[[MetastoreClient, str], ttypes.Table]] = {
    "get_table": lambda client, database: client.get_table(database, "view"),
    "get_table_req": lambda client, database: client.get_table_req(ttypes.GetTableRequest(database, "view")).table,
    "get_table_req with capabilities": lambda client, database: (
        client.get_table_req(ttypes.GetTableRequest(database, "view", capabilities=ttypes.ClientCapabilities([]))).table
    ),
    "get_table_objects_by_name": lambda client, database: client.get_table_objects_by_name(database, ["view"])[0],
    "get_table_objects_by_name_req": lambda client, database: client.get_table_objects_by_name_req(
        ttypes.GetTablesRequest(database, ["view"])
    ).tables[0],
}


def source_parameters(view: ttypes.Table) -> list[Any]:
    """The parameters of the view's sources."""
    return [source.table.parameters.get("note") for source in view.creationMetadata.sourceTables]


@pytest.mark.real
@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_view_shows_its_source_as_it_is(
    hms42: Metastore,
    new_proxy: Callable[..., Proxy],
    unique_name: str,
    read: Callable[[MetastoreClient, str], ttypes.Table],
) -> None:
    """A write to the source through the proxy changes what a read of the view says."""
    database = unique_name
    with ExitStack() as stack:
        proxy = new_proxy(hms42, settings=ALWAYS, store=False)
        direct, client, other = (
            stack.enter_context(MetastoreClient(*address)) for address in (hms42.address, proxy.address, proxy.address)
        )
        create_table(client, database, keys="")
        view = client.get_table(database, "t")
        view.tableName, view.tableType, view.parameters, view.sd.location = "view", "MATERIALIZED_VIEW", {}, None
        view.viewOriginalText = view.viewExpandedText = "select 1"
        used = {f"{database}.t"}
        view.creationMetadata = ttypes.CreationMetadata("hive", database, "view", used, validTxnList="9:9::")
        client.create_table(view)
        assert source_parameters(read(client, database)) == source_parameters(read(client, database)) == [None]
        table = other.get_table(database, "t")
        table.parameters = {**table.parameters, "note": "changed"}
        other.alter_table(database, "t", table)
        assert read(client, database) == READS["get_table_req"](direct, database)
        assert source_parameters(read(client, database)) == ["changed"]
        assert client.get_table(database, "t") == client.get_table(database, "t")
        assert proxy.requests()["get_table", "hit", ""] > 0, "other tables are kept"
