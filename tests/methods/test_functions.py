"""Functions and catalogs: kept replies are right at once after a write, and after a change that writes no event."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hms_cache_proxy.metrics import WorkerMetrics
from hms_cache_proxy.store.sql.marked_tables import MOST
from hms_cache_proxy.store.sql.store import open_sql_store
from tests.methods.local import Asked, Local, followed_over
from tests.methods.oracle import Oracle
from tests.methods.test_dispatch import until
from tests.methods.world import World, struct
from tests.testbed.bed import Bed
from tests.testbed.metastore import Metastore

pytestmark = pytest.mark.real


@pytest.fixture
def name(world42: World, hms: Oracle) -> Iterator[bytes]:
    """A function of the test's own."""
    own = b"fun_%d" % time.monotonic_ns()
    hms.do("create_function", func=function(world42.database, own))
    yield own
    hms.ask("drop_function", dbName=world42.database, funcName=own)


def function(database: bytes, name: bytes, class_name: bytes = b"org.example.One") -> Any:
    resources = [struct("ResourceUri", resourceType=1, uri=b"file:///lib/%b.jar" % name)]
    return struct(
        "Function",
        functionName=name,
        dbName=database,
        className=class_name,
        ownerName=b"me",
        ownerType=1,
        createTime=1,
        functionType=1,
        resourceUris=resources,
    )


def altered(database: bytes, name: bytes, class_name: bytes) -> dict[str, Any]:
    return {"dbName": database, "funcName": name, "newFunc": function(database, name, class_name)}


def get_function(local: Local, world: World, name: bytes) -> Asked:
    return local.ask("get_function", dbName=world.database, funcName=name)


def class_of(asked: Asked) -> bytes:
    found: bytes = asked.reply.value.success.className
    return found


def kept(question: Callable[[], Asked]) -> Asked:
    """The answer, once it comes from here."""
    return until(question, lambda asked: asked.by in ("hit", "hot"))


def test_every_read_is_kept_as_the_metastore_said_it(local: Local, world42: World, hms: Oracle, name: bytes) -> None:
    local.followed.confirmed()
    for method, arguments in (
        ("get_function", {"dbName": world42.database, "funcName": name}),
        ("get_function", {"dbName": world42.database.upper(), "funcName": name.upper()}),
        ("get_function", {"dbName": world42.database, "funcName": b"absent"}),
        ("get_function", {"dbName": b"no_such_database", "funcName": b"absent"}),
        ("get_functions", {"dbName": world42.database, "pattern": b"*"}),
        ("get_functions", {"dbName": world42.database, "pattern": b"FUN_*"}),
        ("get_functions_req", {"request": struct("GetFunctionsRequest", dbName=world42.database, pattern=b"*")}),
        ("get_all_functions", {}),
        ("get_catalogs", {}),
        ("get_catalog", {"catName": struct("GetCatalogRequest", name=b"hive")}),
        ("get_catalog", {"catName": struct("GetCatalogRequest", name=b"absent")}),
    ):
        own = hms.ask(method, **arguments)
        ask = lambda method=method, arguments=arguments: local.ask(method, **arguments)  # noqa: E731
        assert ask().reply == own
        if own.type.name == "REPLY" and set(own.plain[1]) <= {"success", "o1", "o2"}:
            assert kept(ask).reply == own, method


def test_an_alter_made_elsewhere_is_seen_by_the_next_step(
    local: Local, world42: World, hms: Oracle, name: bytes
) -> None:
    for number in range(5):
        kept(lambda: get_function(local, world42, name))
        before = hms.do("get_current_notificationEventId").eventId
        hms.do("alter_function", **altered(world42.database, name, b"org.example.N%d" % number))
        assert hms.do("get_current_notificationEventId").eventId == before, "it writes no event"
        local.followed.confirmed()
        assert class_of(get_function(local, world42, name)) == b"org.example.N%d" % number
    assert class_of(kept(lambda: get_function(local, world42, name))) == b"org.example.N4"


def test_created_and_dropped_elsewhere(local: Local, world42: World, hms: Oracle, name: bytes) -> None:
    everything = lambda: local.ask("get_functions", dbName=world42.database, pattern=name.decode() + "*")  # noqa: E731
    one, two = name, name + b"_two"
    for names in ([one], [one, two]) * 2:
        if names[-1] == two:
            hms.do("create_function", func=function(world42.database, two))
        else:
            hms.ask("drop_function", dbName=world42.database, funcName=two)
        local.followed.confirmed()
        assert sorted(everything().reply.value.success) == names
        found = get_function(local, world42, two).reply.value
        assert (found.success is not None) == (two in names)
        kept(everything)
        kept(lambda: get_function(local, world42, two))
    hms.do("drop_function", dbName=world42.database, funcName=two)


def test_own_writes_are_read_at_once_by_everybody(local: Local, world42: World) -> None:
    own = b"own_%d" % time.monotonic_ns()
    other = local.another()
    kept(lambda: get_function(local, world42, own))
    assert local.ask("create_function", func=function(world42.database, own)).by == "write"
    for number in range(10):
        for connection in (local, other):
            assert class_of(get_function(connection, world42, own)) == (
                b"org.example.N%d" % (number - 1) if number else b"org.example.One"
            )
            listed = connection.ask("get_all_functions").reply.value.success.functions
            assert own in {each.functionName for each in listed}
        if number % 2:
            kept(lambda: get_function(local, world42, own))
        arguments = altered(world42.database, own, b"org.example.N%d" % number)
        assert local.ask("alter_function", **arguments).by == "write"
    kept(lambda: get_function(other, world42, own))
    assert local.ask("drop_function", dbName=world42.database, funcName=own).by == "write"
    for connection in (other, local):
        assert get_function(connection, world42, own).reply.value.success is None


def test_a_dropped_database_takes_its_functions(local: Local, world42: World, hms: Oracle) -> None:
    for through_the_proxy in (True, False):
        database = b"%bf%d" % (world42.prefix.encode(), time.monotonic_ns())
        hms.do("create_database", database=struct("Database", name=database))
        hms.do("create_function", func=function(database, b"f"))
        local.followed.confirmed()
        listed = lambda database=database: {  # noqa: E731
            each.dbName for each in local.another().ask("get_all_functions").reply.value.success.functions or ()
        }
        assert database in listed()
        kept(lambda: local.ask("get_all_functions"))
        ask = local.ask if through_the_proxy else hms.ask
        ask("drop_database", name=database, deleteData=True, cascade=True)
        if not through_the_proxy:
            local.followed.confirmed()
        assert database not in listed()


def test_a_catalog_altered_elsewhere(local: Local, world42: World, hms: Oracle) -> None:
    catalog = f"{world42.prefix}cat".encode()
    location = b"file:/tmp/" + catalog
    get = lambda: local.ask("get_catalog", catName=struct("GetCatalogRequest", name=catalog))  # noqa: E731
    names = lambda: local.ask("get_catalogs").reply.value.success.names  # noqa: E731
    row = struct("Catalog", name=catalog, description=b"0", locationUri=location)
    assert catalog not in names()
    kept(get)
    local.ask("create_catalog", catalog=struct("CreateCatalogRequest", catalog=row))
    try:
        assert catalog in names()
        for number in (b"1", b"2"):
            kept(get)
            kept(lambda: local.ask("get_catalogs"))
            row.description = number
            hms.do("alter_catalog", rqst=struct("AlterCatalogRequest", name=catalog, newCat=row))
            local.followed.confirmed()
            assert get().reply.value.success.catalog.description == number
        row.description = b"3"
        local.ask("alter_catalog", rqst=struct("AlterCatalogRequest", name=catalog, newCat=row))
        assert get().reply.value.success.catalog.description == b"3"
    finally:
        local.ask("drop_catalog", catName=struct("DropCatalogRequest", name=catalog))
    assert catalog not in names()


def test_altered_and_altered_back_is_a_change(world42: World, hms: Oracle, name: bytes) -> None:
    """A reply of the moment between must not count as right."""
    store = open_sql_store(world42.store_url)
    seen = set()
    for class_name in (b"org.example.One", b"org.example.Two", b"org.example.One"):
        hms.do("alter_function", **altered(world42.database, name, class_name))
        with store.snapshot() as snapshot:
            marks = snapshot.marks()
        assert marks is not None
        seen.add(marks.functions)
    assert len(seen) == 3
    with store.snapshot() as snapshot:
        assert snapshot.marks() == marks
    store.close()


def test_what_was_altered_while_the_follower_was_away(world42: World, hms: Oracle, name: bytes, tmp_path: Path) -> None:
    with followed_over(world42, tmp_path / "data") as running:
        running.loaded()
        with closing(Local.connect(running, world42.address, WorkerMetrics())) as local:
            kept(lambda: get_function(local, world42, name))
            running.kill()
            hms.do("alter_function", **altered(world42.database, name, b"org.example.Away"))
            running.start()
            running.confirmed()
            assert class_of(get_function(local, world42, name)) == b"org.example.Away"


def test_over_thrift_nothing_tells_and_nothing_is_kept(world42: World, name: bytes, tmp_path: Path) -> None:
    with followed_over(world42, tmp_path / "data", store="thrift") as running:
        running.loaded()
        with closing(Local.connect(running, world42.address, WorkerMetrics())) as local:
            for _ in range(3):
                for asked in (get_function(local, world42, name), local.ask("get_catalogs")):
                    assert (asked.by, asked.reason) == ("miss", "unlogged")
                running.confirmed()
                local.session.floors = None


@pytest.fixture
def crowded(bed: Bed) -> Iterator[Metastore]:
    metastore = bed.private_metastore("hive42")
    yield metastore
    bed.release(metastore)


def test_too_many_are_not_looked_at(crowded: Metastore, tmp_path: Path) -> None:
    assert crowded.database is not None
    host, port = crowded.address
    world = World(f"{host}:{port}", crowded.database.reader_url, "")
    world.database = b"default"
    with followed_over(world, tmp_path / "data", include=["*.*"]) as running:
        running.loaded()
        with closing(Local.connect(running, world.address, WorkerMetrics())) as local:
            kept(lambda: get_function(local, world, b"f"))
            crowded.database.rows(
                'INSERT INTO "FUNCS" ("FUNC_ID", "DB_ID", "FUNC_NAME", "CLASS_NAME", "OWNER_TYPE", "FUNC_TYPE",'
                """ "CREATE_TIME") SELECT 100000 + i, 1, 'f' || i, 'C', 'USER', 1, 1"""
                f" FROM generate_series(1, {MOST + 1}) i RETURNING 1"
            )
            running.confirmed()
            local.session.floors = None
            asked = local.another().ask("get_function", dbName=b"default", funcName=b"f7")
            assert (asked.by, asked.reason, class_of(asked)) == ("miss", "unlogged", b"C")
            assert get_function(local, world, b"f").by == "miss"
            for _ in range(2):
                running.confirmed()  # what a step did is told after it is confirmed, and before the next
            assert running.log.read_text().count("cannot be looked at") == 1
