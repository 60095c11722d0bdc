"""The file of an embedded metastore, read while it writes: who waits for whom, what is no such file, marks."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hms_cache_proxy.errors import StoreError
from hms_cache_proxy.store.protocol import Marks
from hms_cache_proxy.store.sql.marked_tables import MARKS
from hms_cache_proxy.store.sql.report import privileges_report
from hms_cache_proxy.store.sql.schema import READ_TABLES
from hms_cache_proxy.store.sql.store import SqlStore, open_sql_store
from tests.store.content import descriptor
from tests.store.oracle import Oracle, hms
from tests.testbed.bed import Bed
from tests.testbed.metastore import Metastore

ENDLESS = "WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT max(x) FROM c"


@pytest.fixture(scope="module")
def metastore(bed: Bed) -> Iterator[Metastore]:
    """An embedded one that no test stops."""
    made = bed.private_metastore("embedded")
    yield made
    bed.release(made)


@pytest.fixture
def own(new_metastore: Callable[..., Metastore]) -> Metastore:
    """One of the test's own."""
    return new_metastore("embedded")


@pytest.fixture
def store(metastore: Metastore) -> Iterator[SqlStore]:
    opened = open_sql_store(url(metastore))
    yield opened
    opened.close()


@pytest.fixture
def oracle(metastore: Metastore) -> Iterator[Oracle]:
    with Oracle(*metastore.address) as opened:
        yield opened


def url(metastore: Metastore) -> str:
    assert metastore.database is not None
    return metastore.database.reader_url


def file_of(metastore: Metastore) -> Path:
    assert metastore.database is not None
    return Path(metastore.database.name)


def make(oracle: Oracle, name: str, **fields: Any) -> None:
    oracle.create_database(hms.Database(name=name, **fields))


def seen(store: SqlStore) -> tuple[int, list[bytes], Marks | None]:
    with store.snapshot() as snapshot:
        return snapshot.event_id, [name for _, name in snapshot.database_names()], snapshot.marks()


def test_nobody_waits_for_a_snapshot_and_it_sees_one_state(store: SqlStore, oracle: Oracle) -> None:
    with store.snapshot() as snapshot:
        before = snapshot.event_id
        make(oracle, "meanwhile")
        assert b"meanwhile" not in [name for _, name in snapshot.database_names()]
        assert snapshot.events(before, 10) == []
    event_id, names, _ = seen(store)
    assert event_id == before + 1 and b"meanwhile" in names


def test_it_cannot_write(store: SqlStore) -> None:
    with pytest.raises(StoreError, match="readonly database"):
        store.database.rows('DELETE FROM "DBS"')
    assert b"default" in seen(store)[1]


def test_the_log_begins_anew_between_snapshots(metastore: Metastore, store: SqlStore, oracle: Oracle) -> None:
    """What is written while a snapshot lasts goes into the database after it, and the log's file is used again."""
    log = file_of(metastore).with_name("metastore.db-wal")
    with store.snapshot():
        for number in range(30):
            make(oracle, f"during_{number}", description="x" * 4000, parameters={"p": "y" * 4000})
        size = log.stat().st_size
    for number in range(60):  # SQLite copies the log at every 1,000 pages
        seen(store)
        make(oracle, f"after_{number}", description="x" * 4000, parameters={"p": "y" * 4000})
    for number in range(60):
        seen(store)
        make(oracle, f"later_{number}", description="x" * 4000, parameters={"p": "y" * 4000})
    assert log.stat().st_size < size + (8 << 20)
    with closing(sqlite3.connect(file_of(metastore))) as connection:
        blocked, pages, copied = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    assert (blocked, copied) == (0, pages)
    assert {f"later_{number}".encode() for number in range(60)} <= set(seen(store)[1])


def test_a_metastore_that_is_killed_and_started_again(own: Metastore) -> None:
    """A crash leaves the log to be read by whoever comes: a snapshot, then the next own."""
    with closing(open_sql_store(url(own))) as store, Oracle(*own.address) as oracle:
        make(oracle, "first")
        assert b"first" in seen(store)[1]
        make(oracle, "second")
        own.kill()
        assert b"second" in seen(store)[1]
        with closing(open_sql_store(url(own))) as other:
            assert b"second" in seen(other)[1]
        own.start()
        with Oracle(*own.address) as again:
            make(again, "third")
        event_id, names, _ = seen(store)
        assert (event_id, {b"first", b"second", b"third"} - set(names)) == (3, set())


def test_another_database_in_its_place(own: Metastore, new_metastore: Callable[..., Metastore]) -> None:
    """The next snapshot is refused, and what is opened then is the new one."""
    with closing(open_sql_store(url(own))) as store, Oracle(*own.address) as oracle:
        make(oracle, "mine")
        other = new_metastore("embedded")
        with Oracle(*other.address) as theirs:
            make(theirs, "theirs")
        other.stop()
        own.stop()
        assert b"mine" in seen(store)[1]
        uuid = store.identity.database_uuid
        mine = file_of(own)
        for end in ("", "-wal", "-shm"):
            mine.with_name(mine.name + end).unlink(missing_ok=True)
        with pytest.raises(StoreError, match="not the one that was opened"):
            seen(store)
        shutil.copy(file_of(other), mine)
        with closing(open_sql_store(url(own))) as opened:
            assert opened.identity.database_uuid not in ("", uuid)
            assert b"theirs" in seen(opened)[1]


def test_written_over_in_place(own: Metastore) -> None:
    """The file is the same, but its log is gone."""
    with closing(open_sql_store(url(own))) as store, Oracle(*own.address) as oracle:
        make(oracle, "mine")
        assert b"mine" in seen(store)[1]
        own.stop()
        for end in ("-wal", "-shm"):
            file_of(own).with_name("metastore.db" + end).unlink()
        with pytest.raises(StoreError, match="not the one that was opened"):
            seen(store)


def test_what_is_no_metastores_database(tmp_path: Path) -> None:
    def refused(name: str, words: str) -> None:
        with pytest.raises(StoreError, match=words) as caught:
            open_sql_store(f"sqlite:///{tmp_path / name}")
        assert str(tmp_path / name) in str(caught.value)

    refused("missing", "there is no such file")
    refused("", "disk I/O error|unable to open")
    (tmp_path / "text").write_text("no database" * 1000)
    refused("text", "file is not a database")
    (tmp_path / "empty").touch()
    refused("empty", "has no tables")
    for name, mode in (("other", "wal"), ("rollback", "delete")):
        with closing(sqlite3.connect(tmp_path / name)) as connection:
            connection.execute(f"PRAGMA journal_mode = {mode}")
            connection.execute("CREATE TABLE x (y)")
    refused("other", "no such table: VERSION: it is no metastore's")
    refused("rollback", "no write-ahead log")
    with closing(sqlite3.connect(tmp_path / "wide")) as connection:
        connection.executescript("PRAGMA encoding = 'UTF-16'; PRAGMA journal_mode = wal; CREATE TABLE x (y)")
    refused("wide", "holds text as UTF-16")


def test_a_locked_file(own: Metastore) -> None:
    """Somebody has it for himself: no snapshot, and an error that says so after a while."""
    own.stop()
    with closing(sqlite3.connect(file_of(own), isolation_level=None)) as connection:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreError, match="database is locked"):
            open_sql_store(url(own), statement_timeout_s=0.2)
    with closing(open_sql_store(url(own))) as store:
        assert seen(store)[0] == 0


def test_a_statement_that_takes_too_long(metastore: Metastore) -> None:
    with closing(open_sql_store(url(metastore), statement_timeout_s=0.2)) as store:
        with pytest.raises(StoreError, match=r"no answer within 0\.2 s"):
            store.database.rows(ENDLESS)
        assert b"default" in seen(store)[1]


def test_the_report(metastore: Metastore) -> None:
    report = privileges_report(url(metastore))
    assert (report.server.product, report.server.database) == ("SQLite", str(file_of(metastore)))
    assert report.isolation == "repeatable read" and report.failure is None and report.identity is not None
    assert (report.tables, report.missing, report.unreadable, report.writable) == (READ_TABLES, (), (), ())
    assert report.grant_script == ""


def test_an_order_that_is_not_bytewise(own: Metastore) -> None:
    """Such a file was not made by the embedded metastore; lists by name are not answered then."""
    own.stop()
    with closing(sqlite3.connect(file_of(own))) as connection:
        connection.execute("CREATE TABLE other (name TEXT COLLATE NOCASE)")
    with closing(open_sql_store(url(own))) as store:
        assert not store.identity.binary_collation


def function(name: str, **fields: Any) -> Any:
    values = {
        "functionName": name,
        "dbName": "default",
        "className": "c.A",
        "ownerName": "o",
        "ownerType": hms.PrincipalType.USER,
        "functionType": hms.FunctionType.JAVA,
        "resourceUris": [hms.ResourceUri(hms.ResourceType.JAR, "file:/a.jar")],
    }
    return hms.Function(**(values | fields))


def test_marks(store: SqlStore, oracle: Oracle) -> None:
    """Each kind of change without an event makes another mark, also the one that puts back what was there."""
    marks = [seen(store)[2]]

    def changed(*kinds: str) -> None:
        found, before = seen(store)[2], marks[-1]
        assert found is not None and before is not None
        expected = {kind: getattr(found, kind) for kind in kinds}
        assert found == replace(before, **expected)
        assert all(getattr(before, kind) != value for kind, value in expected.items())
        assert found not in marks
        marks.append(found)

    oracle.create_function(function("f"))
    changed("functions")
    oracle.alter_function("default", "f", function("f", className="c.B"))
    changed("functions")
    oracle.alter_function("default", "f", function("f"))
    changed("functions")
    oracle.alter_function("default", "f", function("f", resourceUris=[]))
    changed("functions")
    oracle.drop_function("default", "f")
    changed("functions")
    make(oracle, "d", description="one")
    changed("databases")
    oracle.alter_database("d", hms.Database(name="d", description="two"))
    changed("databases")
    oracle.alter_database("d", hms.Database(name="d", description="one"))
    changed("databases")
    oracle.alter_database("d", hms.Database(name="d", description="one", parameters={"a": "b"}))
    changed("databases")
    oracle.create_catalog(hms.CreateCatalogRequest(hms.Catalog(name="c", locationUri="file:/c")))
    changed("catalogs", "databases")  # it has a database `default`
    before = marks[-1]
    sd = descriptor()
    oracle.create_table(hms.Table(tableName="t", dbName="d", sd=sd, partitionKeys=[], parameters={}))
    assert seen(store)[2] == before


def test_a_database_without_marks(own: Metastore) -> None:
    """Made before there were any: none is told, until its metastore starts again."""
    own.stop()
    with closing(sqlite3.connect(file_of(own))) as connection:
        triggers = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")]
        connection.executescript(f'DROP TABLE "{MARKS}";' + "".join(f'DROP TRIGGER "{name}";' for name in triggers))
    with closing(open_sql_store(url(own))) as store:
        assert len(triggers) == 15 and seen(store)[2] is None
    own.start()
    with closing(open_sql_store(url(own))) as store:
        assert seen(store)[2] is not None
