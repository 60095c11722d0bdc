"""TTL mode before Hive 4.2, which has constraints that Hive 2.3 of the other tests lacks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import pytest
from hive_metastore import ttypes  # type: ignore[import-untyped]  # generated

from tests.proxy import Proxy
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore
from tests.testbed.processes import wait_until
from tests.ttl.conftest import ALWAYS, create_table

FLAGS = {"enable_cstr": False, "validate_cstr": False, "rely_cstr": False, "catName": "hive"}


def shown(client: MetastoreClient, database: str) -> list[str]:
    """The foreign keys of the child."""
    request = ttypes.AllTableConstraintsRequest(dbName=database, tblName="child", catName="hive")
    return [key.fk_name for key in client.get_all_table_constraints(request).allTableConstraints.foreignKeys or ()]


def is_kept(proxy: Proxy) -> bool:
    """Has an answer about constraints been given from the cache?"""
    return any(key[:2] == ("get_all_table_constraints", "hit") for key in proxy.told_requests())


@pytest.mark.real
def test_foreign_keys_are_shown_once_there_is_a_primary_key(
    hms42: Metastore, new_proxy: Callable[..., Proxy], unique_name: str
) -> None:
    """Hive shows none that refers to a unique constraint. A key that one client adds ends what was kept for another."""
    database = unique_name
    with ExitStack() as stack:
        proxy = new_proxy(hms42, settings=ALWAYS, store=False)
        direct = stack.enter_context(MetastoreClient(*hms42.address))
        client, other = (stack.enter_context(MetastoreClient(*proxy.address)) for _ in range(2))
        create_table(client, database, "parent", keys="")
        child = client.get_table(database, "parent")
        child.tableName, child.sd.location = "child", None
        client.create_table(child)
        where = {"table_db": database, "table_name": "parent", "column_name": "c", "key_seq": 1, **FLAGS}
        foreign = ttypes.SQLForeignKey(
            pktable_db=database,
            pktable_name="parent",
            pkcolumn_name="c",
            fktable_db=database,
            fktable_name="child",
            fkcolumn_name="c",
            key_seq=1,
            update_rule=0,
            delete_rule=0,
            fk_name="fk",
            **FLAGS,
        )
        unique = ttypes.SQLUniqueConstraint(**where, uk_name="uk")
        assert shown(client, database) == []
        other.add_unique_constraint(ttypes.AddUniqueConstraintRequest([unique]))
        other.add_foreign_key(ttypes.AddForeignKeyRequest([foreign]))
        assert shown(client, database) == shown(client, database) == shown(direct, database) == []
        assert wait_until(lambda: is_kept(proxy))
        primary = ttypes.SQLPrimaryKey(**where, pk_name="pk")
        other.add_primary_key(ttypes.AddPrimaryKeyRequest([primary]))
        assert shown(client, database) == shown(direct, database) == ["fk"]
