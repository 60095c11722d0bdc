"""A Hive 2.3.10 without a notification log, a proxy in TTL mode before it, and a record of what it is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest
from hive_metastore import ttypes  # type: ignore[import-untyped]  # generated

from tests.proxy import Proxy
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore
from tests.testbed.processes import wait_until
from tests.testbed.recording_proxy import RecordingProxy

ALWAYS = {"STORE": "none", "TTL_ENABLED": "true", "TTL_TTL": "1h"}


@pytest.fixture(scope="session")
def silent_hms(bed: Any) -> Metastore:
    """A metastore that writes no notification log."""
    metastore: Metastore = bed.shared("hive23-silent")
    return metastore


@dataclass
class Recorded:
    """A proxy in TTL mode, the record of what it asks, a client of each."""

    proxy: Proxy
    asked: RecordingProxy
    client: MetastoreClient
    direct: MetastoreClient

    def another(self) -> MetastoreClient:
        """One more connection to the proxy; the caller closes it."""
        return MetastoreClient(*self.proxy.address)


@pytest.fixture
def recorded(silent_hms: Metastore, new_proxy: Callable[..., Proxy]) -> Iterator[Callable[..., Recorded]]:
    """recorded(SETTING="value", ...)."""
    with ExitStack() as stack:

        def make(**settings: str) -> Recorded:
            asked = stack.enter_context(RecordingProxy(*silent_hms.address))
            proxy = new_proxy(silent_hms, settings={**ALWAYS, **settings}, store=False, upstream=asked.uri)
            client = stack.enter_context(MetastoreClient(*proxy.address))
            direct = stack.enter_context(MetastoreClient(*silent_hms.address))
            client.get_all_databases()
            asked.take()
            return Recorded(proxy, asked, client, direct)

        yield make


def create_table(client: MetastoreClient, database: str, name: str = "t", keys: str = "dt region") -> None:
    """A database with a table of string keys."""
    descriptor = _descriptor(None)
    client.create_database(ttypes.Database(name=database))
    client.create_table(
        ttypes.Table(
            dbName=database,
            tableName=name,
            owner="o",
            tableType="MANAGED_TABLE",
            sd=descriptor,
            parameters={},
            partitionKeys=[ttypes.FieldSchema(name=key, type="string") for key in keys.split()],
        )
    )


def add_partitions(client: MetastoreClient, database: str, values: list[list[str]], name: str = "t") -> None:
    """Partitions of it."""
    table = client.get_table(database, name)
    client.add_partitions(
        [
            ttypes.Partition(
                values=one,
                dbName=database,
                tableName=name,
                sd=_descriptor(f"{table.sd.location}/{'/'.join(one)}"),
                parameters={},
            )
            for one in values
        ]
    )


def until(holds: Callable[[], bool]) -> None:
    """Until it does."""
    assert wait_until(holds)


def _descriptor(location: str | None) -> Any:
    return ttypes.StorageDescriptor(
        cols=[ttypes.FieldSchema(name="c", type="bigint")],
        location=location,
        inputFormat="org.apache.hadoop.mapred.TextInputFormat",
        outputFormat="org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat",
        serdeInfo=ttypes.SerDeInfo(
            serializationLib="org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe", parameters={}
        ),
        parameters={},
    )
