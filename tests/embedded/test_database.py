"""The tables: Hive's own, as a Java metastore finds them; and databases that are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import create_engine, inspect

from hms_cache_proxy.embedded.database import Database
from hms_cache_proxy.errors import StoreError
from tests.embedded.conftest import new_database
from tests.testbed.bed import Bed
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore
from tests.testbed.objects import add_partitions, create_database, create_table, read_table, table
from tests.testbed.postgres import OWNER, Schema

PLACES = {"warehouse": "file:/w", "external": "file:/e"}


def reflected(url: str) -> dict[str, Any]:
    """All that a database says of its tables, in a form that can be compared."""
    engine = create_engine(url)
    inspector = inspect(engine)
    found: dict[str, Any] = {}
    for name in inspector.get_table_names():
        columns = {
            column["name"]: (str(column["type"]), column["nullable"], str(column["default"]).split("::")[0])
            for column in inspector.get_columns(name)
        }
        foreign = sorted(
            (key["name"], *key["constrained_columns"], key["referred_table"], str(sorted(key["options"].items())))
            for key in inspector.get_foreign_keys(name)
        )
        indexes = sorted((i["name"], i["unique"], *i["column_names"]) for i in inspector.get_indexes(name))
        unique = sorted((u["name"], *u["column_names"]) for u in inspector.get_unique_constraints(name))
        primary = inspector.get_pk_constraint(name)
        found[name] = (columns, primary["name"], primary["constrained_columns"], foreign, indexes, unique)
    engine.dispose()
    return found


def prepared(url: str, *, foreign: bool = False) -> bool:
    database = Database(url)
    try:
        return database.prepare(**PLACES, foreign=foreign)
    finally:
        database.close()


@pytest.mark.real
def test_the_tables_are_hives(bed: Bed) -> None:
    ours = new_database(bed).url(OWNER)
    assert prepared(ours) is True
    assert prepared(ours) is False
    hive = bed.postgres.create_metastore_database("hive_for_embedded", Schema.HIVE42)
    expected, found = reflected(hive.store_url), reflected(ours)
    assert found.keys() == expected.keys()
    for name, table_ in expected.items():
        # A default of NULL is none.
        columns = {key: (*value[:2], value[2].replace("NULL", "None")) for key, value in table_[0].items()}
        assert found[name] == (columns, *table_[1:]), name


@pytest.mark.real
def test_a_database_of_hives_is_refused_unless_asked_for(bed: Bed) -> None:
    hive = bed.postgres.create_metastore_database("hive_not_ours", Schema.HIVE42)
    with pytest.raises(StoreError, match="foreign_database"):
        prepared(hive.store_url)
    assert prepared(hive.store_url, foreign=True) is False


@pytest.mark.parametrize("url", ["mysql://h/d", "sqlite://", "nonsense", "sqlite:////proc/no/such/metastore.db"])
def test_urls_that_cannot_be_used(url: str) -> None:
    with pytest.raises((StoreError, OSError)):
        prepared(url)


@pytest.mark.real
def test_a_java_metastore_goes_on_with_it(
    new_metastore: Callable[..., Metastore],
) -> None:
    """Made and filled by the embedded metastore; a Hive 4.2.0 metastore starts on it, reads it all, and adds to it."""
    metastore = new_metastore("embedded-postgresql")
    with MetastoreClient(*metastore.address) as client:
        create_database(client, "made_here", {"k": "v"})
        made = create_table(client, table("made_here", "t", partition_keys=[("p", "string")], parameters={"a": "b"}))
        add_partitions(client, made, [[f"v{n}"] for n in range(5)])
        partitions = client.get_partitions("made_here", "t", -1)
        event = client.get_current_notificationEventId().eventId
    metastore.stop()
    hive = new_metastore("hive42", database=metastore.database)
    with MetastoreClient(*hive.address) as client:
        assert read_table(client, "made_here", "t") == made
        assert client.get_partitions("made_here", "t", -1) == partitions
        assert client.get_current_notificationEventId().eventId == event
        create_table(client, table("made_here", "java"))
        add_partitions(client, made, [["java"]])
        assert client.get_current_notificationEventId().eventId == event + 2
    hive.stop()
    metastore.start()
    with MetastoreClient(*metastore.address) as client:
        assert sorted(client.get_all_tables("made_here")) == ["java", "t"]
        create_table(client, table("made_here", "again"))
        assert client.get_partition_names("made_here", "t", -1)[0] == "p=java"
        assert client.get_current_notificationEventId().eventId == event + 3
