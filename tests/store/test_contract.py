"""What every RawStore promises: its bytes are what the metastore itself answers, set and unset included."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from hms_cache_proxy.errors import Unfit
from hms_cache_proxy.store.protocol import UNKNOWN_ID, PartitionRecord, RawStore, Snapshot, SomePartitions, TableRecord
from hms_cache_proxy.wire import spec
from tests.store.conftest import World
from tests.store.oracle import Refused, hms
from tests.store.stores import FILTER, LIST, SINGLE, whole_partition
from tests.testbed.untyped import decode_struct


@pytest.fixture
def snapshot(store: RawStore) -> Iterator[Snapshot]:
    with store.snapshot() as opened:
        yield opened


def full_name(world: World, catalog: bytes, database: bytes) -> str:
    """Hive 2.3 has no catalogs."""
    return database.decode() if world.content.hive2 else f"@{catalog.decode()}#{database.decode()}"


def _full(world: World, record: TableRecord) -> str:
    return full_name(world, record.catalog, record.database)


def whole(world: World, record: TableRecord, partition: PartitionRecord, variant: str) -> dict[int, Any]:
    found = whole_partition(record, partition, variant)
    if world.content.hive2:
        del found[9]  # the catalog, which a cache does not put there either
    return found


def records(world: World, snapshot: Snapshot) -> list[TableRecord]:
    found: list[TableRecord] = []
    for catalog, database in world.keys(snapshot):
        names = [name for name, _, _ in snapshot.table_names(catalog, database)]
        found += snapshot.tables(catalog, database, names).values()
    return found


def partitioned(world: World, snapshot: Snapshot) -> list[TableRecord]:
    """Tables with partition keys, but for one whose partitions cannot be held."""
    unfit = () if world.content.hive4 else (b"skewed_parts",)
    return [record for record in records(world, snapshot) if record.partition_keys and record.name not in unfit]


def comparable(body: dict[int, Any], world: World) -> dict[int, Any]:
    """A table; without the transactions of a materialized view where they are a large object (Hive 3.1)."""
    if 16 in body and not world.content.hive4:
        del body[16][1][5]
    return body


def test_skewed_partitions_of_hive_31(world: World, snapshot: Snapshot) -> None:
    """Its direct SQL for them fails on PostgreSQL: some lists are then read in another way, others refused."""
    if not world.content.version.startswith("3."):
        pytest.skip("Hive 3.1 alone fails at them")
    with pytest.raises(Unfit):
        snapshot.partitions(table(world, snapshot, "skewed_parts"))
    with pytest.raises(Refused, match="Exception thrown when executing query"):
        world.oracle.get_partitions_ps(world.content.database, "skewed_parts", [""], -1)


def table(world: World, snapshot: Snapshot, name: str) -> TableRecord:
    return snapshot.tables(b"hive", world.content.database.encode(), [name.encode()])[name.encode()]


def test_identity(store: RawStore, world: World) -> None:
    uuid = "" if world.content.hive2 else world.oracle.get_metastore_db_uuid().decode()  # made when it is asked for
    identity = store.identity
    assert identity.hive_line == ".".join(world.metastore.flavour.version.split(".")[:2])
    assert identity.binary_collation
    assert identity.database_uuid == uuid


def test_every_database_is_named(world: World, snapshot: Snapshot) -> None:
    in_hive = [name for catalog, name in snapshot.database_names() if catalog == b"hive"]
    assert in_hive == sorted(in_hive)
    assert set(in_hive) == set(world.oracle.get_all_databases())
    assert len(world.keys(snapshot)) == (8 if world.content.hive4 else 6 if world.content.hive2 else 7)


def test_databases(world: World, snapshot: Snapshot, store: RawStore) -> None:
    """As stored from the database, as `get_database` says from the metastore."""
    found = snapshot.databases(
        [*world.keys(snapshot), (b"hive", b"no such"), (b"none", b"default"), (b"hive", b"\xff")]
    )
    assert sorted(found) == world.keys(snapshot)
    for (catalog, name), record in found.items():
        stored = dict(decode_struct(record.body))
        answered = world.oracle.get_database(full_name(world, catalog, name))
        if (
            name.endswith(b"_managed") and store.identity.databases_rewritten
        ):  # in the warehouse: the one thing that get_database rewrites
            assert stored.pop(3)[1] == record.location
            assert answered.pop(3)[1] != record.location
        assert stored == answered
        assert record.remote == name.endswith(b"remote")


def test_databases_as_stored(world: World, snapshot: Snapshot, store: RawStore) -> None:
    """get_databases_req shows also the location as it is stored."""
    if not world.content.version.startswith("4.2") or not store.identity.exact:
        pytest.skip("get_databases_req came with Hive 4.1, and shows what is stored, as an exact store does")
    for catalog, name in world.keys(snapshot):
        body = snapshot.databases([(catalog, name)])[catalog, name].body
        request = hms.GetDatabaseObjectsRequest(catalogName=catalog.decode(), pattern=name.decode())
        stored = decode_struct(body)
        if name.endswith(b"_remote"):
            stored.pop(3)  # not shown here
        assert world.oracle.get_databases_req(request)[1][1] == [stored]


def test_table_names(world: World, snapshot: Snapshot) -> None:
    for catalog, database in world.keys(snapshot):
        listed = snapshot.table_names(catalog, database)
        names = [name for name, _, _ in listed]
        assert names == sorted(names)
        if database.endswith(b"remote"):
            continue  # the metastore asks the remote side
        assert set(names) == set(world.oracle.get_all_tables(full_name(world, catalog, database)))
        tables = snapshot.tables(catalog, database, names)
        assert [entry[:2] for entry in listed] == [(name, tables[name].table_type) for name in names]
        assert all(table_id in (UNKNOWN_ID, tables[name].table_id) for name, _, table_id in listed)
    assert snapshot.table_names(b"hive", b"no such") == snapshot.table_names(b"hive", b"\xff") == []


def test_tables(world: World, snapshot: Snapshot) -> None:
    compared, capable = 0, hms.ClientCapabilities([hms.ClientCapability.INSERT_ONLY_TABLES])
    for record in records(world, snapshot):
        catalog, database, name = (part.decode() for part in (record.catalog, record.database, record.name))
        one = hms.GetTableRequest(catName=catalog, dbName=database, tblName=name, capabilities=capable)
        many = hms.GetTablesRequest(catName=catalog, dbName=database, tblNames=[name], capabilities=capable)
        body = comparable(decode_struct(record.body), world)
        assert body == comparable(world.oracle.get_table_req(one)[1][1], world), name
        assert [body] == [comparable(t, world) for t in world.oracle.get_table_objects_by_name_req(many)[1][1]], name
        compared += 1
    assert compared == (26 if world.content.hive2 else 31)


def test_tables_without_capabilities(world: World, snapshot: Snapshot) -> None:
    """The same bytes, or a refusal of exactly the insert-only tables."""
    for record in records(world, snapshot):
        request = hms.GetTableRequest(
            catName=record.catalog.decode(), dbName=record.database.decode(), tblName=record.name.decode()
        )
        insert_only = record.transactional and not record.full_acid and not world.content.hive2
        try:
            answered = world.oracle.get_table_req(request)[1][1]
            assert comparable(decode_struct(record.body), world) == comparable(answered, world)
            assert not insert_only
        except Refused as refusal:
            assert insert_only, refusal


def test_what_a_table_is(world: World, snapshot: Snapshot) -> None:
    plain, keys = table(world, snapshot, "external_plain"), table(world, snapshot, "keys")
    acid, view = table(world, snapshot, "acid"), table(world, snapshot, "a_view")
    assert (acid.transactional, acid.full_acid) == (True, True)
    assert (plain.transactional, plain.full_acid, plain.materialized_view) == (False, False, False)
    assert plain.location is not None and plain.location.endswith(b"/external_plain")
    assert (view.table_type, view.location) == (b"VIRTUAL_VIEW", None)
    assert keys.partition_keys == ((b"year", b"int"), (b"day", b"date"), (b"city", b"string"))


def test_what_a_table_of_hive_3_is(world: World, snapshot: Snapshot) -> None:
    if world.content.hive2:
        pytest.skip("Hive 2.3 has neither insert-only tables nor materialized views")
    insert_only, materialized = (table(world, snapshot, name) for name in ("insert_only", "a_materialized_view"))
    assert (insert_only.transactional, insert_only.full_acid) == (True, False)
    assert (materialized.table_type, materialized.materialized_view) == (b"MATERIALIZED_VIEW", True)


def test_tables_of_several_databases(world: World, snapshot: Snapshot) -> None:
    database = world.content.database.encode()
    keys = [(b"hive", database, name) for name, _, _ in snapshot.table_names(b"hive", database)]
    absent = [(b"hive", b"default", b"no such"), (b"no such", database, b"keys"), (b"hive", b"\xff", b"a\0b")]
    found = snapshot.tables_of([*keys, *absent, (b"hive", b"default", keys[0][2])])
    assert found == {key: table(world, snapshot, key[2].decode()) for key in keys}
    assert snapshot.tables_of([]) == {}


def test_absent_tables(world: World, snapshot: Snapshot) -> None:
    database = world.content.database.encode()
    assert list(snapshot.tables(b"hive", database, [b"no such", b"keys", b"\xff", b"a\0b"])) == [b"keys"]
    assert snapshot.tables(b"hive", b"no such", [b"keys"]) == {}
    assert snapshot.tables(b"hive", database, []) == {}


def test_partition_lists(world: World, snapshot: Snapshot) -> None:
    for record in partitioned(world, snapshot):
        database, name = _full(world, record), record.name.decode()
        mine = snapshot.partitions(record)
        wholes = [whole(world, record, partition, LIST) for partition in mine]
        names = [partition.name.decode() for partition in mine]
        anything = [""] * len(record.partition_keys)
        oracle = world.oracle
        assert [partition.name for partition in mine] == oracle.get_partition_names(database, name, -1)
        assert wholes == oracle.get_partitions(database, name, -1)
        assert wholes == oracle.get_partitions_ps(database, name, anything, -1)
        assert wholes == oracle.get_partitions_ps_with_auth(database, name, anything, -1, "u", [])
        assert wholes == oracle.get_partitions_by_names(database, name, names)


def test_partitions_by_filter(world: World, snapshot: Snapshot, store: RawStore) -> None:
    for record in partitioned(world, snapshot):
        if record.full_acid and not store.identity.exact:
            continue  # lists do not say it; nothing of such tables is answered from a cache
        key, kind = (part.decode() for part in record.partition_keys[0])
        if world.content.hive2 and kind != "string":
            continue  # it filters keys of strings, and integers by equality
        everything = f'{key} != "no such"' if kind == "string" else f"{key} > 0"
        answered = world.oracle.get_partitions_by_filter(_full(world, record), record.name.decode(), everything, -1)
        assert [whole(world, record, partition, FILTER) for partition in snapshot.partitions(record)] == answered


def test_partitions_by_some_values(world: World, snapshot: Snapshot, store: RawStore) -> None:
    """In the form of calls by filter since 4.0.1 (HIVE-28205), of calls for one partition before."""
    form = FILTER if store.identity.hive_line in ("4.1", "4.2") else SINGLE
    if form is SINGLE and not store.identity.single_partitions:
        pytest.skip("this store does not know the form of single partitions")
    for record in partitioned(world, snapshot):
        if record.full_acid and not store.identity.exact:
            continue  # lists do not say it; nothing of such tables is answered from a cache
        mine = snapshot.partitions(record)
        shown = [whole(world, record, partition, form) for partition in mine]
        for partition in mine:
            (value, *_) = spec.decode(spec.struct("Partition"), partition.values + b"\0")[0].values
            answered = world.oracle.get_partitions_ps(_full(world, record), record.name.decode(), [value.decode()], -1)
            if value:
                assert all(one in shown for one in answered)
                assert answered or not value.isalnum()


def test_single_partitions(world: World, snapshot: Snapshot, store: RawStore) -> None:
    if not store.identity.single_partitions:
        pytest.skip("this store's lists do not give what single partitions give")
    for record in partitioned(world, snapshot):
        database, name = _full(world, record), record.name.decode()
        for partition in snapshot.partitions(record):
            mine = whole(world, record, partition, SINGLE)
            values = [value.decode() for value in mine[1][1]]
            oracle = world.oracle
            assert mine == oracle.get_partition_by_name(database, name, partition.name.decode())
            assert mine == oracle.get_partition(database, name, values)
            assert mine == oracle.get_partition_with_auth(database, name, values, "u", [])
            if world.content.hive4:
                request = hms.GetPartitionRequest(
                    catName=record.catalog.decode(), dbName=record.database.decode(), tblName=name, partVals=values
                )
                assert mine == oracle.get_partition_req(request)[1][1]


def test_equal_parts_are_shared(world: World, snapshot: Snapshot) -> None:
    """A table's partitions share their heads and tails, and most have no variants."""
    keys = snapshot.partitions(table(world, snapshot, "keys"))
    assert len(keys) == 18
    assert len({id(partition.sd_head) for partition in keys}) == len({id(partition.sd_tail) for partition in keys}) == 1
    assert {(partition.sd_tail_single, partition.sd_tail_filter) for partition in keys} == {(None, None)}


def test_partitions_in_chunks(world: World, snapshot: Snapshot) -> None:
    record, other = table(world, snapshot, "keys"), table(world, snapshot, "parts")
    everything, others = snapshot.partitions(record), snapshot.partitions(other)
    assert [partition.name for partition in everything] == sorted(partition.name for partition in everything)
    for size in (1, 4, 17, 18, 19):
        assert _in_chunks(snapshot, record, size) == everything
    # two tables in turn, and a start in the middle
    first, second = snapshot.partitions(record, limit=5), snapshot.partitions(other, limit=5)
    assert snapshot.partitions(record, after=first[-1].name, limit=50) == everything[5:]
    assert snapshot.partitions(other, after=second[-1].name) == others[5:]
    assert snapshot.partitions(record, after=b"year=10/~", limit=2) == everything[6:8]
    assert snapshot.partitions(record, after=everything[-1].name) == []


def _in_chunks(snapshot: Snapshot, record: TableRecord, size: int) -> list[PartitionRecord]:
    found: list[PartitionRecord] = []
    while chunk := snapshot.partitions(record, after=found[-1].name if found else None, limit=size):
        assert len(chunk) <= size
        found += chunk
    return found


def test_named_partitions(world: World, snapshot: Snapshot) -> None:
    record = table(world, snapshot, "parts")
    everything = snapshot.partitions(record)
    names = [partition.name for partition in everything]
    assert snapshot.partitions(record, names=[*reversed(names), b"p=no such", b"\xff", names[0]]) == everything
    assert snapshot.partitions(record, names=names[3:5]) == everything[3:5]
    assert snapshot.partitions(record, names=[b"p=no such"]) == snapshot.partitions(record, names=[]) == []


def test_partitions_of_many_tables(world: World, snapshot: Snapshot) -> None:
    """All or some of each, as of this table alone; one that cannot be held spoils no other."""
    found = [record for record in records(world, snapshot) if record.partition_keys]
    wanted = [SomePartitions(record) for record in found]
    for record, whole in zip(found, snapshot.partitions_of(wanted), strict=True):
        assert _repr(whole) == _repr(_alone(snapshot, record, None))
    names = {record.name: [b"p=no such", b"\xff"] for record in found}
    for record, whole in zip(found, snapshot.partitions_of(wanted), strict=True):
        if not isinstance(whole, Unfit):
            names[record.name] += [partition.name for partition in reversed(whole[1::2])]
    mixed = [SomePartitions(record, names[record.name]) for record in found[::2]]
    mixed += [SomePartitions(record) for record in found[1::2]]
    for (record, some), answer in zip(mixed, snapshot.partitions_of(mixed), strict=True):
        assert _repr(answer) == _repr(_alone(snapshot, record, some))
    assert snapshot.partitions_of([]) == []


def _alone(snapshot: Snapshot, record: TableRecord, names: Sequence[bytes] | None) -> list[PartitionRecord] | Unfit:
    try:
        return snapshot.partitions(record, names=names)
    except Unfit as error:
        return error


def _repr(answer: list[PartitionRecord] | Unfit) -> list[PartitionRecord] | str:
    return repr(answer) if isinstance(answer, Unfit) else answer


def test_partition_counts(world: World, snapshot: Snapshot) -> None:
    found = records(world, snapshot)
    counts = snapshot.partition_counts([record.table_id for record in found])
    wanted: dict[int, Any] = {record.table_id: 0 for record in found}
    wanted |= {record.table_id: len(snapshot.partitions(record)) for record in partitioned(world, snapshot)}
    if not world.content.hive4:
        wanted[table(world, snapshot, "skewed_parts").table_id] = 2
    assert counts == wanted
    assert snapshot.partition_counts([]) == {} and snapshot.partition_counts([-1]) == {-1: 0}
