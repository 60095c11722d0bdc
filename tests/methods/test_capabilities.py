"""Clients that say what they can do (`processorCapabilities`), of every kind of table, against real metastores.

Hive 4 shapes tables and partitions for a client by its words, unless it can do everything, as a HiveServer2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hms_cache_proxy.methods.readers.base import HIVESERVER2
from tests.methods.local import Local
from tests.methods.oracle import Oracle
from tests.methods.questions.question import HIT, Question
from tests.methods.test_readers import compare
from tests.methods.world import World, descriptor, struct
from tests.proxy import Proxy
from tests.testbed.metastore import Metastore

pytestmark = pytest.mark.real

CAPABLE: dict[str, list[bytes]] = {
    "as Hive 4.2 says it": [*sorted(HIVESERVER2), b"CONNECTORREAD", b"CONNECTORWRITE"],
    "before connectors": sorted(HIVESERVER2, reverse=True),
}
LESS: dict[str, list[bytes] | None] = {
    "nothing said": None,
    "nothing": [],
    "no external writing": sorted(HIVESERVER2 - {b"EXTWRITE"}),
    "no buckets": sorted(HIVESERVER2 - {b"HIVEBUCKET2"}),
    "no full ACID": sorted(HIVESERVER2 - {b"HIVEFULLACIDREAD", b"HIVEFULLACIDWRITE"}),
    "another word": [*HIVESERVER2, b"MANAGERAWMETADATA"],
    "lower case": [word.lower() for word in HIVESERVER2],
}
TABLES = {
    b"plain": HIT,
    b"keyed": HIT,
    b"bucketed": HIT,
    b"a_view": HIT,
    b"asking": "capabilities",  # the table names capabilities itself
    b"insert_only": HIT,
    b"full_acid": HIT,
    b"full_flat": HIT,
    b"no_such": HIT,
}


def questions(world: World, table: bytes, words: list[bytes] | None, reason: str) -> list[Question]:
    """The three requests that have a place for capabilities, with a list and the table's id where it has one."""
    said = {"processorCapabilities": words, "processorIdentifier": b"HMSClient-@host"}
    knows: dict[str, Any] = {"capabilities": struct("ClientCapabilities", values=[2]), **said}
    with Oracle(world.address) as hms:
        request = struct("GetTableRequest", dbName=world.database, tblName=table, capabilities=knows["capabilities"])
        found = hms.ask("get_table_req", req=request).value.success
    transactional = found is not None and b"transactional" in found.table.parameters
    proof: dict[str, Any] = {}
    if transactional:
        proof = {"validWriteIdList": b"%b.%b:0:9223372036854775807::" % (world.database, table), "id": found.table.id}
    one = struct("GetTableRequest", dbName=b"{db}", tblName=table, engine=b"hive", **knows, **proof)
    names = [b"dt=1", b"dt=a"]
    parts = struct("GetPartitionsByNamesRequest", db_name=b"{db}", tbl_name=table, names=names, **said, **proof)
    many = struct("GetTablesRequest", dbName=b"{db}", tblNames=[table, b"nor_this"], **knows)
    return [
        Question("get_table_req", {"req": one}, reason),
        Question("get_partitions_by_names_req", {"req": parts}, reason),
        Question("get_table_objects_by_name_req", {"req": many}, "no_write_id" if transactional else reason),
    ]


@pytest.mark.parametrize("table", TABLES, ids=bytes.decode)
@pytest.mark.parametrize("words", CAPABLE)
@pytest.mark.parametrize("flavour", ["hive42", "hive40"])
def test_who_can_do_everything(request: pytest.FixtureRequest, flavour: str, words: str, table: bytes) -> None:
    world, local = asked(request, flavour)
    for question in questions(world, table, CAPABLE[words], TABLES[table]):
        compare(world, local, question)


@pytest.mark.parametrize("table", [b"plain", b"bucketed", b"insert_only", b"full_flat"], ids=bytes.decode)
@pytest.mark.parametrize("words", LESS)
@pytest.mark.parametrize("flavour", ["hive42", "hive40"])
def test_others_are_the_metastores(request: pytest.FixtureRequest, flavour: str, words: str, table: bytes) -> None:
    world, local = asked(request, flavour)
    for question in questions(world, table, LESS[words], "capabilities"):
        compare(world, local, question)


def test_another_transformer(new_metastore: Callable[..., Metastore], new_proxy: Callable[..., Proxy]) -> None:
    """Where Hive's own transformer is off, tables have no accessType."""
    metastore = new_metastore("hive42", settings={"metastore.metadata.transformer.class": " "})
    table = struct("Table", tableName=b"t", dbName=b"default", sd=descriptor(), parameters={}, partitionKeys=[])
    with Oracle(":".join(map(str, metastore.address))) as hms:
        hms.do("create_table", tbl=table)
        proxy = new_proxy(metastore)
        words = CAPABLE["as Hive 4.2 says it"]
        question = struct("GetTableRequest", dbName=b"default", tblName=b"t", processorCapabilities=words)
        direct = hms.ask("get_table_req", req=question)
    with Oracle(":".join(map(str, proxy.address))) as client:
        assert client.ask("get_table_req", req=question).plain == direct.plain
    assert direct.value.success.table.accessType is None
    proxy.wait(lambda: ("get_table_req", "miss", "settings") in proxy.told_requests(), "counted")


def asked(request: pytest.FixtureRequest, flavour: str) -> tuple[World, Local]:
    """The world on this metastore, and a dispatcher over it."""
    release = flavour.removeprefix("hive")
    return request.getfixturevalue(f"world{release}"), request.getfixturevalue(f"local{release}")
