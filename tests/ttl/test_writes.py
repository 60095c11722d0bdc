"""Writes through the proxy are seen at once also where they change what is said of something else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hive_metastore import constants as hive_metastore_constants  # type: ignore[import-untyped]
from hive_metastore import ttypes  # type: ignore[import-untyped]  # generated

from hms_cache_proxy.cache import targets
from hms_cache_proxy.cache.ttl import EntryKind
from hms_cache_proxy.methods.ttl.kinds import read_targets, write_targets
from tests.ttl.conftest import Recorded, create_table


def test_foreign_keys_follow_the_tables_they_refer_to(recorded: Callable[..., Recorded], unique_name: str) -> None:
    world, database = recorded(), unique_name
    client = world.client
    create_table(client, database, "parent", keys="")
    child = client.get_table(database, "parent")
    child.tableName, child.sd.location = "child", None
    client.create_table(child)
    where = {"table_db": database, "table_name": "parent", "column_name": "c", "key_seq": 1}
    flags = {"enable_cstr": False, "validate_cstr": False, "rely_cstr": False}
    primary = ttypes.SQLPrimaryKey(**where, pk_name=f"{database}_pk", **flags)
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
        fk_name=f"{database}_fk",
        pk_name=f"{database}_pk",
        **flags,
    )
    client.add_primary_key(ttypes.AddPrimaryKeyRequest([primary]))
    client.add_foreign_key(ttypes.AddForeignKeyRequest([foreign]))

    def shown(of: Any) -> Any:
        request = ttypes.ForeignKeysRequest(foreign_db_name=database, foreign_tbl_name="child")
        return of.get_foreign_keys(request).foreignKeys

    assert [key.pktable_name for key in shown(client)] == ["parent"]
    world.asked.take()
    shown(client)
    assert world.asked.take() == []
    parent = client.get_table(database, "parent")
    parent.tableName = "renamed"
    client.alter_table(database, "parent", parent)
    assert [key.pktable_name for key in shown(client)] == ["renamed"]
    client.drop_table(database, "renamed", False)
    assert shown(client) == shown(world.direct) == []


def test_privileges_go_with_their_object(recorded: Callable[..., Recorded], unique_name: str) -> None:
    world, database = recorded(), unique_name
    client = world.client
    ref = ttypes.HiveObjectRef(objectType=ttypes.HiveObjectType.TABLE, dbName=database, objectName="t")
    info = ttypes.PrivilegeGrantInfo("SELECT", 0, "o", ttypes.PrincipalType.USER, False)
    granted = ttypes.HiveObjectPrivilege(ref, "anna", ttypes.PrincipalType.USER, info)
    reads: list[Callable[[Any], Any]] = [
        lambda of: of.list_privileges("anna", ttypes.PrincipalType.USER, ref),
        lambda of: of.get_privilege_set(ref, "anna", []).userPrivileges["anna"],
    ]
    create_table(client, database)
    client.grant_privileges(ttypes.PrivilegeBag([granted]))
    assert [len(read(client)) for read in reads] == [1, 1]
    world.asked.take()
    assert [len(read(client)) for read in reads] == [1, 1]
    assert world.asked.take() == []
    client.drop_table(database, "t", False)
    for read in reads:
        assert read(client) == read(world.direct) == []
    client.drop_database(database, False, True)
    create_table(client, database)
    assert [read(client) for read in reads] == [[], []]


def test_what_a_user_was_shown_is_forgotten_with_a_revoke(recorded: Callable[..., Recorded], unique_name: str) -> None:
    world, database = recorded(TTL_IMPERSONATION="on"), unique_name
    ref = ttypes.HiveObjectRef(objectType=ttypes.HiveObjectType.TABLE, dbName=database, objectName="t")
    info = ttypes.PrivilegeGrantInfo("SELECT", 0, "o", ttypes.PrincipalType.USER, False)
    bag = ttypes.PrivilegeBag([ttypes.HiveObjectPrivilege(ref, "anna", ttypes.PrincipalType.USER, info)])
    create_table(world.client, database)
    world.client.grant_privileges(bag)
    with world.another() as anna:
        anna.set_ugi("anna", [])
        anna.get_table(database, "t")
        world.asked.take()
        anna.get_table(database, "t")
        assert world.asked.take() == []
        world.client.revoke_privileges(bag)
        anna.get_table(database, "t")
        assert [call.method for call in world.asked.take()] == ["revoke_privileges", "get_table"]


def test_lists_that_say_what_tables_are_follow_them(recorded: Callable[..., Recorded], unique_name: str) -> None:
    world, database = recorded(), unique_name
    client = world.client
    create_table(client, database)
    owned = f'{hive_metastore_constants.HIVE_FILTER_FIELD_OWNER} = "o"'

    def shown(of: Any) -> Any:
        return (
            [(meta.tableName, meta.comments) for meta in of.get_table_meta(database, "*", ["MANAGED_TABLE"])],
            of.get_tables_by_type(database, "*", "MANAGED_TABLE"),
            of.get_table_names_by_filter(database, owned, -1),
        )

    assert shown(client) == shown(world.direct) == ([("t", None)], ["t"], ["t"])
    world.asked.take()
    shown(client)
    assert world.asked.take() == []
    table = client.get_table(database, "t")
    table.owner = "another"
    table.parameters = {**table.parameters, "comment": "said"}
    client.alter_table(database, "t", table)
    assert shown(client) == shown(world.direct) == ([("t", "said")], ["t"], [])
    table.tableType, table.parameters = "EXTERNAL_TABLE", {**table.parameters, "EXTERNAL": "TRUE"}
    client.alter_table(database, "t", table)
    assert shown(client) == shown(world.direct) == ([], [], [])


@pytest.mark.parametrize("write", ["alter_database", "alter_database_req"])
def test_lists_that_say_what_databases_are_follow_them(write: str) -> None:
    """Hive 4's get_databases_req gives whole databases."""
    read = read_targets("get_databases_req", EntryKind.DATABASE_NAMES, (targets.databases(b"hive"),), None)
    assert set(read) & set(write_targets(write, (targets.database(b"hive", b"d"),)))


@pytest.mark.parametrize("write", ["add_primary_key", "create_table_with_constraints", "create_table_req"])
def test_constraints_of_other_tables_follow_new_keys(write: str) -> None:
    child, parent = (targets.table(b"hive", b"d", name) for name in (b"child", b"parent"))
    read = read_targets("get_all_table_constraints", EntryKind.CONSTRAINTS, (child,), None)
    assert set(read) & set(write_targets(write, (parent,)))


def test_tables_that_a_pattern_names_follow_all_writes() -> None:
    """Whatever is written to may be among them."""
    named = targets.database(b"hive", b"d"), targets.tables(b"hive", b"d"), targets.members(b"hive", b"d")
    assert read_targets("get_table_objects_by_name_req", EntryKind.TABLE, named, None) == (targets.ALL,)
