"""All tables, as a metastore lists them: of every catalog, of old releases too, and through the proxy."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hms_cache_proxy.config import Address
from hms_cache_proxy.errors import UpstreamError
from hms_cache_proxy.pipeline.advise import catalogue
from hms_cache_proxy.pipeline.advise.patterns import KnownTable
from tests.proxy import Proxy
from tests.testbed import objects
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore
from tests.testbed.processes import free_port


def fill(metastore: Metastore, name: str) -> set[KnownTable]:
    with MetastoreClient(*metastore.address) as client:
        objects.create_database(client, name)
        for table in ("orders", "Items"):
            objects.create_table(client, objects.table(name, table, [("id", "bigint")]))
    return {KnownTable(name, "orders"), KnownTable(name, "items")}


@pytest.mark.real
@pytest.mark.parametrize("flavour", ["hms42", "hms23"])
def test_of_a_metastore(request: pytest.FixtureRequest, flavour: str, unique_name: str) -> None:
    metastore: Metastore = request.getfixturevalue(flavour)
    made = fill(metastore, unique_name)
    found = catalogue.from_metastore(Address(*metastore.address))
    assert {name for name in found if name.database == unique_name} == made


@pytest.mark.real
def test_of_the_proxy(hms42: Metastore, new_proxy: Callable[..., Proxy], unique_name: str) -> None:
    made = fill(hms42, unique_name)
    found = catalogue.from_metastore(Address(*new_proxy(hms42, settings={"STORE": "none"}, prewarmed=False).address))
    assert made <= found


def test_nobody_there() -> None:
    with pytest.raises(UpstreamError, match="Connection refused"):
        catalogue.from_metastore(Address("127.0.0.1", free_port()))
