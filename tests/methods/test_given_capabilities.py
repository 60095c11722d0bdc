"""`bridge.capabilities`: clients that name no capabilities, through a proxy that names some for them, on Hive 4.2."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from hms_cache_proxy.methods import capabilities, creations
from hms_cache_proxy.methods.readers.base import HIVESERVER2
from hms_cache_proxy.wire import facts
from hms_cache_proxy.wire.facts import METHODS, STRUCTS
from tests.methods.oracle import Oracle, Reply
from tests.methods.world import descriptor, struct
from tests.proxy import Proxy
from tests.testbed.bed import Bed
from tests.testbed.metastore import Metastore

WORDS = sorted(HIVESERVER2)
GIVEN = {
    "BRIDGE_CAPABILITIES": json.dumps({"trino*": [word.decode() for word in WORDS]}),
    "BRIDGE_MANAGED_LOCATIONS": "metastore",
}
ACID = {b"transactional": b"true", b"transactional_properties": b"insert_only"}


def test_every_request_with_a_place_for_capabilities_is_known() -> None:
    wanted = {"processorCapabilities", "processorIdentifier"}
    found = {
        name.encode(): method.args[0].type
        for name, method in METHODS.items()
        if len(method.args) == 1
        and method.args[0].type in STRUCTS
        and wanted <= {row.name for row in facts.fields(method.args[0].type)}
    }
    assert found == capabilities.CARRIERS


@pytest.mark.parametrize("method", sorted(creations.CREATED_BY), ids=bytes.decode)
def test_each_argument_of_a_create_is_a_field_of_the_request(method: bytes) -> None:
    rows = {row.id: row.type for row in facts.fields("CreateTableRequest")}
    arguments = {row.id: row.type for row in METHODS[method.decode()].args}
    assert {field: rows[of] for field, of in creations.CREATED_BY[method].items()} == arguments


@pytest.fixture(scope="module")
def capable(bed: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """A proxy that gives trino's users all capabilities."""
    hms = bed.shared("hive42")
    assert hms.database is not None
    proxy = Proxy(tmp_path_factory.mktemp("capable"), hms.uri, hms.database.reader_url, GIVEN)
    try:
        yield proxy.start(prewarmed=True)
    finally:
        proxy.stop()


@pytest.fixture
def both(hms42: Metastore, capable: Proxy) -> Iterator[tuple[Oracle, Proxy]]:
    """The metastore itself, and the proxy."""
    with Oracle(":".join(map(str, hms42.address))) as hms:
        yield hms, capable


@pytest.fixture
def database(both: tuple[Oracle, Proxy], unique_name: str) -> bytes:
    """A database of the metastore."""
    hms, _ = both
    name = unique_name.encode()
    hms.do("create_database", database=struct("Database", name=name, parameters={}))
    return name


@contextmanager
def client(proxy: Proxy, user: bytes) -> Iterator[Oracle]:
    with Oracle(":".join(map(str, proxy.address))) as connection:
        connection.do("set_ugi", user_name=user, group_names=[b"staff"])
        yield connection


def wanted(database: bytes, name: bytes, location: bytes | None, **fields: object) -> object:
    parameters = fields.pop("parameters", ACID)
    return struct(
        "Table",
        tableName=name,
        dbName=database,
        owner=b"trino",
        sd=descriptor(location=location),
        partitionKeys=[],
        parameters=parameters,
        tableType=b"MANAGED_TABLE",
        **fields,
    )


def location_of(hms: Oracle, database: bytes) -> bytes:
    found: bytes = hms.do("get_database", name=database).locationUri
    return found


def table(hms: Oracle, database: bytes, name: bytes) -> Reply:
    asked = struct(
        "GetTableRequest",
        dbName=database,
        tblName=name,
        capabilities=struct("ClientCapabilities", values=[2]),
        processorCapabilities=WORDS,
        processorIdentifier=capabilities.IDENTIFIER,
    )
    return hms.ask("get_table_req", req=asked)


@pytest.mark.parametrize("method", sorted(creations.CREATED_BY), ids=bytes.decode)
def test_a_transactional_table_is_created(both: tuple[Oracle, Proxy], database: bytes, method: bytes) -> None:
    hms, proxy = both
    default = location_of(hms, database) + b"/acid"
    arguments: dict[str, object] = {"tbl": wanted(database, b"acid", default)}
    if method == b"create_table_with_environment_context":
        arguments["environment_context"] = struct("EnvironmentContext", properties={b"a": b"b"})
    if method == b"create_table_with_constraints":
        key = struct(
            "SQLPrimaryKey",
            table_db=database,
            table_name=b"acid",
            column_name=b"id",
            key_seq=1,
            pk_name=b"of_acid",
            enable_cstr=False,
            validate_cstr=False,
            rely_cstr=True,
        )
        arguments["primaryKeys"] = [key]
    with client(proxy, b"somebody") as other:
        refused = other.ask(method.decode(), **arguments)
        assert b"Processor has no capabilities" in refused.value.o3.message
    with client(proxy, b"trino-7") as trino:
        trino.do(method.decode(), **arguments)
    made = table(hms, database, b"acid").value.success.table
    assert made.tableType == b"MANAGED_TABLE"
    assert not made.sd.location.startswith(location_of(hms, database) + b"/")  # Hive chose it
    if method == b"create_table_with_constraints":
        asked = struct("PrimaryKeysRequest", db_name=database, tbl_name=b"acid")
        assert [each.pk_name for each in hms.do("get_primary_keys", request=asked).primaryKeys] == [b"of_acid"]


@pytest.mark.parametrize(
    ("location", "parameters"),
    [
        (b"{default}/elsewhere/acid", ACID),
        (b"{default}/acid", {**ACID, b"numFiles": b"2"}),
    ],
    ids=["a place of its own", "with files"],
)
def test_other_locations_stay(
    both: tuple[Oracle, Proxy], database: bytes, location: bytes, parameters: dict[bytes, bytes]
) -> None:
    hms, proxy = both
    where = location.replace(b"{default}", location_of(hms, database))
    with client(proxy, b"trino") as trino:
        refused = trino.ask("create_table", tbl=wanted(database, b"acid", where, parameters=parameters))
    assert b"managed warehouse root directory" in refused.value.o3.message


def test_a_client_gets_what_a_capable_client_gets(both: tuple[Oracle, Proxy], database: bytes) -> None:
    hms, proxy = both
    with client(proxy, b"somebody") as other:
        other.do("create_table", tbl=wanted(database, b"plain", None, parameters={}))
    asked = struct(
        "GetTableRequest",
        dbName=database,
        tblName=b"plain",
        capabilities=struct("ClientCapabilities", values=[2]),
    )
    plain, capable = hms.ask("get_table_req", req=asked), table(hms, database, b"plain")
    assert plain.plain != capable.plain
    with client(proxy, b"trino") as trino, client(proxy, b"somebody") as other:

        def hits() -> float:
            assert other.ask("get_table_req", req=asked).plain == plain.plain  # relayed or kept, they stay apart
            assert trino.ask("get_table_req", req=asked).plain == capable.plain
            return sum(number for key, number in proxy.told_requests().items() if key[:2] == ("get_table_req", "hit"))

        before = hits()
        proxy.wait(lambda: hits() >= before + 4, "answering from its cache")
        with client(proxy, b"trino") as capable_itself:
            own = struct(
                "GetTableRequest",
                dbName=database,
                tblName=b"plain",
                processorCapabilities=[b"EXTREAD"],
                processorIdentifier=b"own",
            )
            assert capable_itself.ask("get_table_req", req=own).plain == hms.ask("get_table_req", req=own).plain


def test_an_unreadable_request_is_the_metastores(both: tuple[Oracle, Proxy]) -> None:
    hms, proxy = both
    with client(proxy, b"trino") as trino:
        assert trino.ask("create_table").plain == hms.ask("create_table").plain
        assert trino.ask("get_table_req").plain == hms.ask("get_table_req").plain


def test_a_metastore_without_the_request_gets_the_old_call(
    hms31: Metastore, new_proxy: Callable[..., Proxy], unique_name: str
) -> None:
    """Hive 3.1 has no create_table_req: it says so, and nothing has been created yet."""
    proxy = new_proxy(hms31, settings=GIVEN, store=False, prewarmed=False)
    name = unique_name.encode()
    with Oracle(":".join(map(str, hms31.address))) as hms, client(proxy, b"trino") as trino:
        hms.do("create_database", database=struct("Database", name=name, parameters={}))
        for table_name in (b"one", b"two"):
            trino.do("create_table", tbl=wanted(name, table_name, None, parameters={}))
        assert sorted(hms.do("get_all_tables", db_name=name)) == [b"one", b"two"]


def test_locations_stay_by_default(hms42: Metastore, new_proxy: Callable[..., Proxy], unique_name: str) -> None:
    settings = {"BRIDGE_CAPABILITIES": GIVEN["BRIDGE_CAPABILITIES"]}
    proxy = new_proxy(hms42, settings=settings, store=False, prewarmed=False)
    name = unique_name.encode()
    with Oracle(":".join(map(str, hms42.address))) as hms, client(proxy, b"trino") as trino:
        hms.do("create_database", database=struct("Database", name=name, parameters={}))
        created = hms.do("get_database", name=name)
        call = {"tbl": wanted(name, b"acid", created.locationUri + b"/acid")}
        assert b"managed warehouse root directory" in trino.ask("create_table", **call).value.o3.message
        created.managedLocationUri = created.locationUri
        hms.do("alter_database", dbname=name, db=created)
        trino.do("create_table", **call)
        made = table(hms, name, b"acid").value.success.table
        assert made.sd.location == created.locationUri + b"/acid"
