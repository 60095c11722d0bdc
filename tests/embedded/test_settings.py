"""Settings of the embedded metastore: what becomes of dropped files, of created tables, of long listings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.embedded.differential import struct
from tests.embedded.scripts import field, partition, table
from tests.methods.oracle import Oracle
from tests.testbed.metastore import Metastore

EXTERNAL_PURGED = {"EXTERNAL": "TRUE", "external.table.purge": "TRUE"}


def asked(metastore: Metastore) -> Oracle:
    oracle = Oracle("{}:{}".format(*metastore.address))
    oracle.do("create_database", database=struct("Database", name="d"))
    return oracle


def place_of(oracle: Oracle, name: str) -> Path:
    request = struct("GetTableRequest", dbName="d", tblName=name)
    location: bytes = oracle.do("get_table_req", req=request).table.sd.location
    return Path(urlsplit(location.decode()).path)


def parted(oracle: Oracle, *values: list[str], **parameters: str) -> Path:
    keys = [field("p"), field("q")]
    oracle.do("create_table", tbl=table("d", "t", partitionKeys=keys, parameters=EXTERNAL_PURGED | parameters))
    for each in values:
        oracle.do("add_partition", new_part=partition("d", "t", each))
    return place_of(oracle, "t")


def drop(oracle: Oracle, *values: str, **properties: str) -> None:
    where: dict[str, Any] = {"db_name": "d", "tbl_name": "t", "part_vals": list(values), "deleteData": True}
    context = struct("EnvironmentContext", properties=properties)
    oracle.do("drop_partition_with_environment_context", **where, environment_context=context)


def test_dropped_files_go_into_the_trash(new_metastore: Callable[..., Metastore], tmp_path: Path) -> None:
    trash = tmp_path / "home" / ".Trash"
    oracle = asked(new_metastore("embedded", settings={"METASTORE_TRASH": str(trash)}))
    root = parted(oracle, ["1", "1"], ["1", "2"], ["2", "1"])
    thrown = trash / "Current" / root.relative_to("/")
    (root / "p=1" / "q=1" / "data").write_text("kept")

    drop(oracle, "1", "1")
    assert (thrown / "p=1" / "q=1" / "data").read_text() == "kept"
    assert (root / "p=1").is_dir(), "another partition lies in it"

    drop(oracle, "1", "2", ifPurge="true")
    assert not (root / "p=1").exists(), "an empty directory above a dropped partition goes with it"
    assert not (thrown / "p=1" / "q=2").exists()

    oracle.do("add_partition", new_part=partition("d", "t", ["1", "1"]))
    drop(oracle, "1", "1")
    again = [each.name for each in (thrown / "p=1").iterdir() if each.name.startswith("q=1")]
    assert len(again) == 2, "the same path twice: the later one has the time behind its name"

    oracle.do("drop_table", dbname="d", name="t", deleteData=True)
    assert not root.exists()
    assert any(each.name.startswith("t") for each in thrown.parent.iterdir())
    oracle.close()


def test_purged_tables_do_not_go_into_the_trash(new_metastore: Callable[..., Metastore], tmp_path: Path) -> None:
    trash = tmp_path / "trash"
    oracle = asked(new_metastore("embedded", settings={"METASTORE_TRASH": str(trash)}))
    root = parted(oracle, ["1", "1"], **{"auto.purge": "true"})
    drop(oracle, "1", "1")
    oracle.do("drop_table", dbname="d", name="t", deleteData=True)
    assert not root.exists()
    assert not trash.exists()
    oracle.close()


def test_without_a_trash_files_are_removed(new_metastore: Callable[..., Metastore]) -> None:
    oracle = asked(new_metastore("embedded"))
    root = parted(oracle, ["1", "1"])
    drop(oracle, "1", "1")
    assert root.is_dir() and not any(root.iterdir())
    oracle.close()


def test_an_archived_partition_leaves_its_archive(new_metastore: Callable[..., Metastore], tmp_path: Path) -> None:
    oracle = asked(new_metastore("embedded"))
    root = parted(oracle)
    original = tmp_path / "original"
    original.mkdir()
    archived = {"is_archived": "true", "original_location": original.as_uri()}
    oracle.do("add_partition", new_part=partition("d", "t", ["1", "1"], parameters=archived))
    drop(oracle, "1", "1")
    assert (root / "p=1" / "q=1").is_dir()
    assert not original.exists()
    oracle.close()


def test_tables_as_given(new_metastore: Callable[..., Metastore]) -> None:
    metastore = new_metastore("embedded", settings={"METASTORE_TRANSFORMER": "false"})
    oracle = asked(metastore)
    oracle.do("create_table", tbl=table("d", "t", tableType="MANAGED_TABLE"))
    request = struct("GetTableRequest", dbName="d", tblName="t", processorCapabilities=[], processorIdentifier="x")
    found = oracle.do("get_table_req", req=request).table
    assert found.tableType == b"MANAGED_TABLE"
    assert set(found.parameters) == {b"transient_lastDdlTime"}
    assert found.accessType is None
    assert place_of(oracle, "t") == metastore.warehouse / "d.db" / "t"
    told = oracle.do("get_config_value", name="metastore.metadata.transformer.class", defaultValue="x")
    assert told == b" "
    oracle.close()


def test_listings_have_a_limit(new_metastore: Callable[..., Metastore]) -> None:
    oracle = asked(new_metastore("embedded", settings={"METASTORE_PARTITION_LIMIT": "2"}))
    parted(oracle, ["1", "1"], ["1", "2"], ["2", "1"])
    where = {"db_name": "d", "tbl_name": "t"}
    reply = oracle.ask("get_partitions", **where, max_parts=-1).value
    assert reply.o2.message == (
        b"Number of partitions scanned (=3) on table 't' exceeds limit (=2). This is controlled on the metastore server"
        b" by metastore.limit.partition.request."
    )
    assert oracle.ask("get_partitions", **where, max_parts=3).value.o2 is not None
    assert len(oracle.do("get_partitions", **where, max_parts=2)) == 2
    assert len(oracle.do("get_partitions_ps", **where, part_vals=["1"], max_parts=-1)) == 2
    assert oracle.ask("get_partitions_by_filter", **where, filter="", max_parts=-1).value.o1 is not None
    assert len(oracle.do("get_partition_names", **where, max_parts=-1)) == 3
    oracle.close()
