"""get_table and get_table_objects_by_name through a worker: on Hive 4.2.0 as on the metastores that have them."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Iterator

import pytest
from hive_metastore.ttypes import GetTablesRequest, NoSuchObjectException
from pyiceberg.catalog.hive import HiveCatalog
from thrift.Thrift import TApplicationException

from tests.server.conftest import Worker
from tests.testbed import objects
from tests.testbed.bed import Bed
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore
from tests.testbed.raw import RawConnection, decode_reply, encode_call

pytestmark = pytest.mark.real
MEGABYTE = 1 << 20


@pytest.fixture
def database(client42: MetastoreClient, unique_name: str) -> str:
    """A database with tables t0, t1, t2."""
    objects.create_database(client42, unique_name)
    for number in range(3):
        objects.create_table(client42, objects.table(unique_name, f"t{number}"))
    return unique_name


@pytest.mark.parametrize("framed", [False, True], ids=["unframed", "framed"])
def test_a_table_is_the_twins_table(own_relay: Worker, client42: MetastoreClient, database: str, framed: bool) -> None:
    with own_relay.client(framed=framed) as client:
        for _ in range(2):  # found out, then remembered
            assert client.get_table(database, "t1") == objects.read_table(client42, database, "t1")
            assert client.get_table(f"@hive#{database}", "T1") == objects.read_table(client42, database, "t1")
            with pytest.raises(NoSuchObjectException) as error:
                client.get_table(database, "absent")
            assert error.value.message == f"hive.{database}.absent table not found"
    assert own_relay.counted(6, "hms_proxy_requests_total", method="get_table", outcome="relay")


def test_tables_are_the_twins_tables(relay: Worker, client42: MetastoreClient, database: str) -> None:
    names = ["t2", "absent", "t0", "T2"]
    expected = client42.get_table_objects_by_name_req(GetTablesRequest(database, names)).tables
    with relay.client() as client:
        assert client.get_table_objects_by_name(database, names) == expected
        assert client.get_table_objects_by_name(database, []) == []
        with pytest.raises(TApplicationException) as error:
            client.get_table_objects_by_name("", ["t"])
        assert error.value.type == TApplicationException.INTERNAL_ERROR


def test_the_reply_carries_name_and_seqid_of_the_request(relay: Worker, database: str) -> None:
    with relay.raw() as connection:
        requests = [encode_call("get_table", database, "t0", seqid=seqid) for seqid in (77, 78)]
        connection.send_bytes(b"".join(requests))
        for seqid in (77, 78):
            method, answered, result = decode_reply(connection.receive())
            assert (method, answered) == ("get_table", seqid)
            assert result.success.tableName == "t0"


def test_null_names_are_refused_as_the_old_method_did(relay: Worker, hms40: Metastore) -> None:
    request = encode_call("get_table", None, None, seqid=3)
    with RawConnection(*hms40.address) as old, relay.raw() as connection:
        assert connection.call(request) == old.call(request)


def test_a_metastore_that_has_the_method_is_asked_it(hms40: Metastore, new_worker: Callable[..., Worker]) -> None:
    worker = new_worker(hms40.address)
    requests = [
        encode_call("get_table", "default", "absent", seqid=1),
        encode_call("get_table_objects_by_name", "default", ["absent"], seqid=2),
        encode_call("get_table_objects_by_name", "", ["absent"], seqid=3),
    ]
    with RawConnection(*hms40.address) as direct, worker.raw() as connection:
        assert [connection.call(one) for one in requests] == [direct.call(one) for one in requests]


@pytest.fixture(scope="module")
def large(bed: Bed) -> Iterator[tuple[str, list[str]]]:
    """A database and its tables of 6 MB; they go with the module: what is huge slows every later follower."""
    name, names = f"lists_{uuid.uuid4().hex[:8]}", [f"t{number}" for number in range(4)]
    with MetastoreClient(*bed.shared("hive42").address) as client:
        objects.create_database(client, name)
        for number, table in enumerate(names):
            client.create_table(objects.table(name, table, parameters={"big": chr(97 + number) * (6 * MEGABYTE)}))
        yield name, names
        client.drop_database(name, False, True)


@pytest.mark.parametrize("framed", [False, True], ids=["unframed", "framed"])
def test_large_lists_are_spliced_as_they_pass(
    own_relay: Worker, client42: MetastoreClient, large: tuple[str, list[str]], framed: bool
) -> None:
    name, names = large
    expected = client42.get_table_objects_by_name_req(GetTablesRequest(name, names)).tables
    with own_relay.raw(framed=framed) as connection:
        connection.call(encode_call("getVersion"))
        before = own_relay.memory_bytes()
        reply = connection.call(encode_call("get_table_objects_by_name", name, names, seqid=5))
        assert own_relay.memory_bytes("VmHWM") - before < 20 * MEGABYTE
    assert decode_reply(reply)[2].success == expected
    assert len(reply) > 24 * MEGABYTE
    assert struct.unpack_from(">i", reply, 4)[0] == len("get_table_objects_by_name")


def test_pyiceberg_works_on_a_new_metastore(relay: Worker, unique_name: str, tmp_path: object) -> None:
    catalog = HiveCatalog("through", uri=f"thrift://127.0.0.1:{relay.port}", warehouse=f"file://{tmp_path}")
    catalog.create_namespace(unique_name)
    from pyiceberg.schema import Schema
    from pyiceberg.types import LongType, NestedField

    schema = Schema(NestedField(1, "id", LongType(), required=False))
    table = catalog.create_table(f"{unique_name}.t", schema)
    assert catalog.load_table(f"{unique_name}.t").metadata == table.metadata
    assert catalog.list_tables(unique_name) == [(unique_name, "t")]
    with table.update_schema() as update:
        update.add_column("name", LongType())
    assert len(catalog.load_table(f"{unique_name}.t").schema().fields) == 2
    catalog.drop_table(f"{unique_name}.t")
