"""Kept replies that list objects with what is in them: right at once after a write, and after a change elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.methods.local import Local
from tests.methods.oracle import Oracle
from tests.methods.test_functions import kept
from tests.methods.world import World, struct

pytestmark = pytest.mark.real


@pytest.fixture
def name(world42: World, hms: Oracle) -> Iterator[bytes]:
    """A table of the test's own."""
    own = b"listed_%d" % time.monotonic_ns()
    world42.table(hms, own)
    yield own
    hms.ask("drop_table", dbname=world42.database, name=own, deleteData=True)


def with_comment(world: World, hms: Oracle, name: bytes, comment: bytes) -> dict[str, Any]:
    found = hms.do("get_table_req", req=world.request("GetTableRequest", dbName=None, tblName=name)).table
    found.parameters[b"comment"] = comment
    return {"dbname": world.database, "tbl_name": name, "new_tbl": found}


def test_comments_of_tables(local: Local, world42: World, hms: Oracle, name: bytes) -> None:
    local.followed.loaded()
    ask = lambda connection=local: connection.ask(  # noqa: E731
        "get_table_meta", db_patterns=world42.database, tbl_patterns=b"*", tbl_types=[]
    )
    comment = lambda asked: {row.tableName: row.comments for row in asked.reply.value.success}[name]  # noqa: E731
    for number in (b"1", b"2", b"3", b"4"):
        assert kept(ask).reply == hms.ask(
            "get_table_meta", db_patterns=world42.database, tbl_patterns=b"*", tbl_types=[]
        )
        through_the_proxy = number in b"13"
        connection = local if through_the_proxy else hms
        connection.ask("alter_table_with_environment_context", **with_comment(world42, hms, name, number))
        if not through_the_proxy:
            local.followed.confirmed()
        assert comment(ask()) == comment(ask(local.another())) == number


def test_an_underscore_in_the_name_of_a_database_is_itself(world42: World, hms: Oracle) -> None:
    """So a name without pattern characters means one database."""
    assert world42.database.endswith(b"_main")
    other = world42.database.replace(b"_main", b"xmain")
    hms.do("create_database", database=struct("Database", name=other))
    world42.table(hms, b"t", dbName=other)
    found = hms.do("get_table_meta", db_patterns=world42.database, tbl_patterns=b"*", tbl_types=[])
    assert {row.dbName for row in found} == {world42.database}
    hms.do("drop_database", name=other, deleteData=True, cascade=True)


def test_objects_of_databases(local: Local, world42: World, hms: Oracle) -> None:
    local.followed.loaded()
    request = struct("GetDatabaseObjectsRequest", pattern=b"%b*" % world42.prefix.encode())
    ask = lambda connection=local: connection.ask("get_databases_req", request=request)  # noqa: E731
    said = lambda asked: next(  # noqa: E731
        row.parameters[b"number"] for row in asked.reply.value.success.databases if row.name == world42.database
    )
    for number in (b"1", b"2", b"3", b"4"):
        assert kept(ask).reply == hms.ask("get_databases_req", request=request)
        changed = hms.do("get_database", name=world42.database)
        changed.parameters = {b"number": number}
        through_the_proxy = number in b"13"
        connection = local if through_the_proxy else hms
        connection.ask("alter_database", dbname=world42.database, db=changed)
        if not through_the_proxy:
            local.followed.confirmed()
        one, two = ask(), ask(local.another())
        assert said(one) == said(two) == number, (one.by, one.reason, two.by, two.reason)


def test_columns_of_a_name_with_a_dot_are_not_kept(local: Local, world42: World, name: bytes) -> None:
    """The metastore answers for what is before the dot, which is not what the request depends on."""
    local.followed.loaded()
    kept(lambda: local.ask("get_fields", db_name=world42.database, table_name=name))
    for method in ("get_fields", "get_schema"):
        for _ in range(2):
            asked = local.ask(method, db_name=world42.database, table_name=name + b".x")
            assert asked.by == "miss" and len(asked.reply.value.success) == 2
            local.followed.confirmed()


@pytest.mark.parametrize(
    "change",
    [
        {"description": b"without an event"},
        {"locationUri": b"file:/tmp/moved"},
        {"managedLocationUri": b"file:/tmp/managed"},
    ],
    ids=str,
)
def test_a_database_altered_elsewhere_without_an_event(
    local: Local, world42: World, hms: Oracle, change: dict[str, bytes]
) -> None:
    database = b"%balt%d" % (world42.prefix.encode(), time.monotonic_ns())
    hms.do("create_database", database=struct("Database", name=database, description=b"before"))
    local.followed.confirmed()
    (field,) = change
    ask = lambda: local.ask("get_database", name=database)  # noqa: E731
    before = getattr(kept(ask).reply.value.success, field)
    for value in (change[field], before, change[field]):
        altered = hms.do("get_database", name=database)
        event = hms.do("get_current_notificationEventId").eventId
        setattr(altered, field, value)
        hms.do("alter_database", dbname=database, db=altered)
        assert hms.do("get_current_notificationEventId").eventId == event, "it writes no event"
        if value is None:  # an unset location is left as it is
            break
        local.followed.confirmed()
        assert getattr(ask().reply.value.success, field) == value
        assert kept(ask).reply == hms.ask("get_database", name=database)
    hms.do("drop_database", name=database, deleteData=True, cascade=True)


def test_a_listing_is_kept_while_tables_change_in_what_it_does_not_show(
    local: Local, world42: World, hms: Oracle, name: bytes
) -> None:
    """As Trino lists a schema whose tables Iceberg commits to, or get partitions."""
    local.followed.loaded()
    arguments = {"db_patterns": world42.database, "tbl_patterns": b"*", "tbl_types": []}
    ask = lambda: local.ask("get_table_meta", **arguments)  # noqa: E731
    first = kept(ask).reply
    for number in (b"1", b"2"):
        found = hms.do("get_table_req", req=world42.request("GetTableRequest", dbName=None, tblName=name)).table
        found.parameters[b"metadata_location"] = number
        hms.do("alter_table_with_environment_context", dbname=world42.database, tbl_name=name, new_tbl=found)
        local.followed.confirmed()
        asked = ask()
        assert asked.by in ("hit", "hot") and asked.reply == first == hms.ask("get_table_meta", **arguments)
