"""Files and commits: a call that is not committed leaves every file where it was, and files are removed afterwards."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from thrift.Thrift import TException

import hms_cache_proxy.embedded
from hms_cache_proxy.embedded.warehouse import Warehouse
from tests.embedded.conftest import BACKENDS
from tests.embedded.differential import ELSEWHERE, EXTERNAL, Step, struct
from tests.embedded.file_scripts import FILL, KINDS, added, dropped, made, several_dropped, truncated
from tests.embedded.move_scripts import TRANSLATED, altered
from tests.embedded.scripts import descriptor, partition
from tests.embedded.test_files import Side
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore
from tests.testbed.objects import create_database, table

NewMetastore = Callable[..., Metastore]
TABLES = 80
REFUSE = {
    "embedded": (
        "CREATE TRIGGER refuse BEFORE INSERT ON NOTIFICATION_LOG BEGIN SELECT RAISE(ABORT, 'refused'); END",
        "DROP TRIGGER refuse",
    ),
    "embedded-postgresql": (
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused'; END $$;"
        'CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON "NOTIFICATION_LOG" DEFERRABLE INITIALLY DEFERRED'
        " FOR EACH ROW EXECUTE FUNCTION refuse()",
        'DROP TRIGGER refuse ON "NOTIFICATION_LOG"; DROP FUNCTION refuse()',
    ),
}
"""Make every call that logs fail: in SQLite when it logs, in PostgreSQL at its commit; and take it back."""


@pytest.fixture
def side(embedded: Metastore, unique_name: str) -> Iterator[Side]:
    one = Side(embedded, unique_name)
    yield one
    one.close()


def run(metastore: Metastore, statements: str) -> None:
    """Statements in the metastore's database, committed."""
    assert metastore.database is not None
    with metastore.database.connect() as connection, connection.cursor() as cursor:
        for statement in [statements] if "plpgsql" in statements or "BEGIN" in statements else statements.split(";"):
            cursor.execute(statement)
        connection.commit()


def changing_calls(db: str) -> list[Step]:
    """Calls that make, remove, empty or move directories, each of which would succeed."""
    here = f"{EXTERNAL}/{db}.db"
    fields = {"parameters": TRANSLATED}
    renamed = partition(db, "t", ["2"], sd=descriptor(location=f"{here}/t/p=1"))
    copied = partition(db, "t", ["2"], sd=renamed.sd, writeId=1)
    copying = {"dbName": db, "tableName": "t", "partVals": ["1"], "newPart": copied, "clonePart": True}
    exchange = {"source_db": db, "source_table_name": "t", "dest_db": db, "dest_table_name": "d"}
    return [
        made(db, "new", where=f"{ELSEWHERE}/new"),
        added(db, "t", "3"),
        ("add_partitions", {"new_parts": [partition(db, "t", [value]) for value in "45"]}),
        ("create_database", {"database": struct("Database", name=f"{db}_new")}),
        truncated(db, "t", None),
        truncated(db, "d", ["p=9"]),
        ("rename_partition", {"db_name": db, "tbl_name": "t", "part_vals": ["1"], "new_part": renamed}),
        ("rename_partition_req", {"req": struct("RenamePartitionRequest", **copying)}),
        altered(db, "t", "u", f"{here}/t", keys=("p",), fields=fields),
        altered(
            db, "t", "t", f"{ELSEWHERE}/t", keys=("p",), fields=fields, REPL_DATA_LOCATION_CHANGED="true"
        ),
        ("exchange_partitions", {"partitionSpecs": {"p": "1"}, **exchange}),
        ("drop_partition", {"db_name": db, "tbl_name": "t", "part_vals": ["1"], "deleteData": True}),
        several_dropped(db, "t", ["p=1"]),
        dropped(db, "t"),
        ("drop_database", {"name": db, "deleteData": True, "cascade": True}),
    ]  # fmt: skip


def test_a_call_that_fails_leaves_files_as_they_were(side: Side, embedded: Metastore, unique_name: str) -> None:
    db = unique_name
    start = [("create_database", {"database": struct("Database", name=db)})]
    tables = [made(db, name, ("p",), **KINDS["made"]) for name in "td"]
    for step in [*start, *tables, added(db, "t", "1"), added(db, "d", "9"), FILL]:
        side.do(step)
    before = side.tree.read()
    forbid, allow = REFUSE[embedded.flavour.name]
    run(embedded, forbid)
    try:
        for step in changing_calls(db):
            assert side.do(step)[0] == "TApplicationException", step[0]
            assert side.tree.read() == before, step[0]
    finally:
        run(embedded, allow)
    for step in changing_calls(db)[:4]:
        assert side.do(step)[0] != "TApplicationException", step[0]


@pytest.mark.parametrize("backend", BACKENDS)
def test_killed_while_it_drops(new_metastore: NewMetastore, backend: str) -> None:
    """Files may be left without a table, never a table without its files."""
    metastore = new_metastore(backend)
    with MetastoreClient(*metastore.address) as client:
        create_database(client, "d")
        for number in range(TABLES):
            client.create_table(table("d", f"t{number}", kind="MANAGED_TABLE"))
            (metastore.external / "d.db" / f"t{number}" / "data").write_text("x" * 1000)
    gone: set[int] = set()

    def drop(first: int) -> None:
        with MetastoreClient(*metastore.address) as client:
            for number in range(first, TABLES, 4):
                try:
                    client.drop_table("d", f"t{number}", True)
                except (TException, OSError, EOFError):
                    return
                gone.add(number)

    threads = [threading.Thread(target=drop, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    while len(gone) < TABLES // 4:
        time.sleep(0.005)
    metastore.kill()
    for thread in threads:
        thread.join()
    assert metastore.database is not None
    there = {str(row[0]) for row in metastore.database.rows('SELECT "TBL_NAME" FROM "TBLS"')}
    with_files = {path.parent.name for path in metastore.external.glob("d.db/*/data")}
    assert 0 < len(there) < TABLES
    assert there <= with_files


def test_what_cannot_be_removed_is_logged(tmp_path: Path) -> None:
    """One line for each file, and whatever else there is goes. The kernel lets nobody remove a process' files."""
    warehouse = Warehouse(f"{tmp_path}/managed", f"{tmp_path}/external")
    with capture_logs() as logs:
        warehouse.remove("file:/proc/self/fdinfo")
    told: list[Any] = [line for line in logs if line["log_level"] == "error"]
    assert told and all(line["path"].startswith("/proc/self/fdinfo") and line["error"] for line in told)


def test_files_are_changed_in_one_place() -> None:
    """Handlers ask directories.py, which knows what other objects live where, and what a rollback takes back."""
    changes = re.compile(r"warehouse\.(make|unmake|remove|remove_empty_parents|empty|move|write)\b")
    package = Path(hms_cache_proxy.embedded.__path__[0])
    found = {str(path.relative_to(package)) for path in package.rglob("*.py") if changes.search(path.read_text())}
    assert found == {"directories.py", "base_files.py", "runner.py"}  # runner makes the warehouses themselves
