"""A metastore that keeps its notification API to administrators (metastore.event.db.notification.api.auth = true)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.proxy import Proxy
from tests.testbed import objects
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore
from tests.testbed.processes import wait_until

CLOSED = {"metastore.event.db.notification.api.auth": "true"}


def version(client: MetastoreClient) -> str:
    return str(objects.read_table(client, "d", "t").parameters["version"])


def change(client: MetastoreClient, table: Any, to: str) -> None:
    table.parameters["version"] = to
    client.alter_table("d", "t", table)


@pytest.mark.real
def test_followed_through_the_database_and_relayed_without(
    new_metastore: Callable[..., Metastore], new_proxy: Callable[..., Proxy]
) -> None:
    metastore = new_metastore(settings=CLOSED)
    with MetastoreClient(*metastore.address) as direct:
        objects.create_database(direct, "d")
        table = objects.create_table(direct, objects.table("d", "t"))
        change(direct, table, "1")
        by_database = new_proxy(metastore)
        by_thrift = new_proxy(metastore, store=False, settings={"STORE": "thrift"})
        assert by_database.status()["mode"] == "cache"
        assert wait_until(lambda: by_thrift.status()["mode_reason"] == "no_log"), by_thrift.peek()
        with MetastoreClient(*by_database.address) as cached, MetastoreClient(*by_thrift.address) as relayed:
            for number in range(2, 12):
                writer = (direct, cached, relayed)[number % 3]
                change(writer, table, str(number))
                assert version(relayed) == str(number)
                if writer is cached:
                    assert version(cached) == str(number)
                assert wait_until(lambda number=number: version(cached) == str(number))  # type: ignore[misc]

            def served() -> bool:
                assert version(cached) == str(number)
                return hits(by_database.told_requests()) >= 20

            assert wait_until(served), by_database.requests()
    assert hits(by_thrift.requests()) == 0
    assert by_thrift.status()["follower"]["restarts"] == by_database.status()["follower"]["restarts"] == 0


def hits(requests: dict[tuple[str, str, str], float]) -> float:
    return sum(count for (_, outcome, _), count in requests.items() if outcome == "hit")
