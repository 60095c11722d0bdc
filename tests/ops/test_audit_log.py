"""The audit log as an operator gets it, with PyIceberg and a plain client: a line for each call that is counted."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.hive import HiveCatalog

from tests.proxy import Proxy
from tests.testbed import objects
from tests.testbed.client import MetastoreClient

pytestmark = pytest.mark.real


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Proxy]:
    settings = {
        "EMBEDDED": "true",
        "WORKERS": "2",
        "AUDIT_LOG_DIRECTORY": str(tmp_path / "logs"),
        "ACCESS_LOG_DIRECTORY": str(tmp_path / "access"),
        "PROTECTION_REFUSE_WRITES": "vault",
    }
    started = Proxy(tmp_path / "proxy", "", settings=settings).start(prewarmed=True)
    yield started
    started.close()


def lines_of(logs: Path) -> list[dict[str, Any]]:
    found = [json.loads(line) for file in sorted(logs.iterdir()) for line in file.read_text().splitlines()]
    return sorted(found, key=lambda line: str(line["time"]))


def iceberg(proxy: Proxy, warehouse: Path) -> None:
    """A table, two appends, a refusal, as the user etl."""
    catalog = HiveCatalog("hive", uri=proxy.uri, warehouse=warehouse.as_uri(), ugi="etl:staff")
    catalog.create_namespace("sales")
    with pytest.raises(Exception, match="protection.refuse_writes"):
        catalog.create_namespace("vault")
    table = catalog.create_table("sales.orders", pa.schema([("id", pa.int64())]))
    for number in range(2):
        table.append(pa.table({"id": [number]}))
    for _ in range(3):
        assert catalog.load_table("sales.orders").scan().to_arrow().num_rows == 2


def test_a_line_for_every_call_that_is_counted(proxy: Proxy, tmp_path: Path) -> None:
    iceberg(proxy, tmp_path / "warehouse")
    with MetastoreClient(*proxy.address) as client:
        table = objects.table("sales", "visits", [("id", "bigint")], [("day", "string")])
        objects.create_table(client, table)
        client.add_partitions([objects.partition(client.get_table("sales", "visits"), [str(day)]) for day in range(7)])
        for _ in range(20):
            assert len(client.get_partitions("sales", "visits", -1)) == 7
        assert len(client.get_partition_names("sales", "visits", 3)) == 3
        assert client.get_partition_by_name("sales", "visits", "day=1").values == ["1"]
    counted = {key: int(value) for key, value in proxy.requests().items() if value}
    assert proxy.stop() == 0
    logs = lines_of(tmp_path / "logs")
    calls = [line for line in logs if line["event"] == "call"]
    assert Counter(line["method"] for line in calls) == Counter(
        {method: sum(n for key, n in counted.items() if key[0] == method) for method, _, _ in counted}
    )
    accessed = lines_of(tmp_path / "access")
    assert Counter(line["method"] for line in accessed) == Counter(line["method"] for line in calls)

    etl = [line for line in calls if line["user"] == "etl"]
    assert {(line["transport"], line["user_by"]) for line in etl} == {("plain", "set_ugi")}
    (refused,) = [line for line in calls if line["outcome"] == "refused"]
    assert (refused["method"], refused["objects"], refused["reason"]) == ("create_database", ["hive.vault"], "refused")
    committed = [line for line in etl if line["method"].startswith("alter_table")]
    assert committed and all(line["objects"] == ["hive.sales.orders"] for line in committed)
    assert all(line["outcome"] == "relayed" and "exception" not in line for line in committed)
    listed = [line for line in calls if line["method"] == "get_partitions"]
    assert {line["partitions"] for line in listed} == {7} and {line["user"] for line in listed} == {None}
    assert "hit" in {line["outcome"] for line in listed}
    (names,) = [line for line in calls if line["method"] == "get_partition_names"]
    (one,) = [line for line in calls if line["method"] == "get_partition_by_name"]
    assert (names["partitions"], one["partitions"]) == (3, 1)
