"""What goes wrong: a log that cannot be followed, servers that come and go, metastores that must not be cached."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hms_cache_proxy.cache.mode import ModeReason
from hms_cache_proxy.cache.state import MODE_RELAY_ONLY, MODE_SERVE, Slot
from hms_cache_proxy.config import paths
from tests.follower.harness import Comparison, Followed
from tests.store.oracle import Oracle
from tests.testbed import objects
from tests.testbed.client import MetastoreClient
from tests.testbed.fault_proxy import FaultProxy
from tests.testbed.metastore import Metastore

pytestmark = pytest.mark.real
Follow = Callable[..., Followed]


def sql(metastore: Metastore, statement: str, *parameters: object) -> None:
    assert metastore.database is not None
    with metastore.database.connect() as connection, connection.cursor() as cursor:
        cursor.execute(statement, parameters or None)


def log_row(metastore: Metastore, type: str, message: str | None, db: str | None, table: str | None) -> None:
    """A row as another program, or a broken one, would write it."""
    assert metastore.database is not None
    with metastore.database.connect() as connection, connection.cursor() as cursor:
        connection.autocommit = False
        cursor.execute('select "NEXT_EVENT_ID" from "NOTIFICATION_SEQUENCE" for update')
        (number,) = cursor.fetchone()
        cursor.execute('update "NOTIFICATION_SEQUENCE" set "NEXT_EVENT_ID" = %s', (number + 1,))
        cursor.execute(
            'insert into "NOTIFICATION_LOG" ("NL_ID", "EVENT_ID", "EVENT_TIME", "EVENT_TYPE", "CAT_NAME", "DB_NAME",'
            ' "TBL_NAME", "MESSAGE", "MESSAGE_FORMAT") values (%s, %s, %s, %s, %s, %s, %s, %s, %s)',
            (10**6 + number, number, int(time.time()), type, "hive", db, table, message, "gzip(json-2.0)"),
        )
        connection.commit()


def unlogged(metastore: Metastore, table: str, value: str) -> None:
    """A change of a table's parameter that leaves no event."""
    sql(
        metastore,
        'insert into "TABLE_PARAMS" select "TBL_ID", %s, %s from "TBLS" where "TBL_NAME" = %s',
        "unlogged" + value,
        value,
        table,
    )


def table(client: MetastoreClient, database: str, name: str, partitions: int = 3) -> Any:
    made = objects.create_table(client, objects.table(database, name, partition_keys=(("p", "string"),)))
    objects.add_partitions(client, made, [(str(n),) for n in range(partitions)])
    return made


def resets(followed: Followed) -> Any:
    found = followed.report()["last_reset"]
    return found and found["reason"]


def reset_for(followed: Followed, reason: str) -> None:
    """Wait until everything was reloaded for this reason."""
    followed.until(lambda: resets(followed) == reason)
    followed.loaded()


@pytest.fixture
def database(own: Metastore) -> Iterator[str]:
    with MetastoreClient(*own.address) as client:
        objects.create_database(client, "d")
        table(client, "d", "t")
        table(client, "d", "u")
    yield "d"
    with MetastoreClient(*own.address) as client:
        client.drop_database("d", True, True)


def test_rows_that_cannot_be_understood(
    own: Metastore, own_client: MetastoreClient, own_oracle: Oracle, follow: Follow, database: str
) -> None:
    """Each invalidates what its row names, so that even an unlogged change beside it is found; the loop goes on."""
    followed = follow(own)
    followed.loaded()
    comparison = Comparison(followed, own_oracle, "d")
    rows = [
        ("ADD_PARTITION", "?", "d", "t"),
        ("ALTER_TABLE", None, "d", "t"),
        ("FROBNICATED", "{}", "d", "t"),
        ("FROBNICATED", "", "d", None),
        ("FROBNICATED", "", None, None),
        ("DROP_TABLE", "x", "d", "absent"),
        ("CREATE_DATABASE", "x", "absent", None),
    ]
    for number, row in enumerate(rows):
        if row[2:] == ("d", "t") or row[3] is None and row[2] != "absent":
            unlogged(own, "t", str(number))
        log_row(own, *row)
        followed.loaded()
        comparison.all()
    followed.until(lambda: resets(followed) == "everything_changed")  # told once a second
    own_client.drop_table("d", "u", False)
    followed.confirmed()
    comparison.all()


def test_gap_in_the_log(own: Metastore, own_oracle: Oracle, follow: Follow, database: str) -> None:
    followed = follow(own)
    followed.loaded()
    unlogged(own, "t", "1")
    sql(own, 'update "NOTIFICATION_SEQUENCE" set "NEXT_EVENT_ID" = "NEXT_EVENT_ID" + 3')
    reset_for(followed, "log_purged")
    Comparison(followed, own_oracle, "d").all()


def test_log_purged_while_away(
    own: Metastore, own_client: MetastoreClient, own_oracle: Oracle, follow: Follow, database: str
) -> None:
    followed = follow(own)
    followed.loaded()
    followed.kill()
    own_client.drop_table("d", "u", False)
    sql(own, 'delete from "NOTIFICATION_LOG"')
    table(own_client, "d", "v")
    followed.start()
    reset_for(followed, "log_purged")
    Comparison(followed, own_oracle, "d").all()


def test_idle_log_purged_under_a_running_follower(
    own: Metastore, own_client: MetastoreClient, own_oracle: Oracle, follow: Follow, database: str
) -> None:
    """Nothing is lost: nothing happened since."""
    followed = follow(own)
    followed.loaded()
    generation = followed.page[Slot.GENERATION]
    sql(own, 'delete from "NOTIFICATION_LOG"')
    followed.confirmed()
    table(own_client, "d", "v")
    followed.loaded()
    Comparison(followed, own_oracle, "d").all()
    assert followed.page[Slot.GENERATION] == generation


@pytest.mark.parametrize("running", [True, False])
def test_restored_database(
    own: Metastore, own_client: MetastoreClient, own_oracle: Oracle, follow: Follow, database: str, running: bool
) -> None:
    """The database goes back to an older state and on from there, past the event id that was followed."""
    followed = follow(own)
    followed.loaded()
    tables = '"TABLE_PARAMS", "PARTITION_PARAMS", "NOTIFICATION_LOG", "NOTIFICATION_SEQUENCE"'
    for name in tables.split(", "):
        sql(own, f"drop table if exists saved_{name.strip(chr(34)).lower()}")
        sql(own, f"create table saved_{name.strip(chr(34)).lower()} as table {name}")
    for _ in range(3):
        changed = own_client.get_table_req(request("d", "t")).table
        changed.parameters["later"] = str(time.monotonic_ns())
        own_client.alter_table("d", "t", changed)
    followed.confirmed()
    if not running:
        followed.kill()
    restore = "; ".join(
        f"delete from {name}; insert into {name} select * from saved_{name.strip(chr(34)).lower()}"
        for name in tables.split(", ")
    )
    sql(own, f"begin; {restore}; commit")
    if not running:
        for number in range(5):
            table(own_client, "d", f"new{number}")
        followed.start()
    reset_for(followed, "event_id_went_back" if running else "other_history")
    Comparison(followed, own_oracle, "d").all()


def request(database: str, name: str) -> Any:
    from hive_metastore.ttypes import GetTableRequest

    return GetTableRequest(dbName=database, tblName=name)


def test_database_and_metastore_come_and_go(
    own: Metastore,
    own_client: MetastoreClient,
    own_oracle: Oracle,
    follow: Follow,
    database: str,
    fault_proxy: Callable[[str, int], FaultProxy],
) -> None:
    assert own.database is not None
    proxy = fault_proxy(own.database.host, own.database.port)
    through = own.database.behind(*proxy.address).reader_url
    followed = follow(own, store_url=through, max_unconfirmed_ms=1000)
    followed.loaded()
    generation = followed.page[Slot.GENERATION]
    for outage in (proxy.cut, proxy.refuse, proxy.stall):
        outage()
        if outage != proxy.cut:  # a step that had read everything ends
            followed.until(lambda: time.monotonic_ns() - followed.page[Slot.BEGAN_NS] > 3e9)
        began_ns = followed.page[Slot.BEGAN_NS]
        table(own_client, "d", outage.__name__)
        time.sleep(1.5)
        if outage != proxy.cut:
            assert followed.page[Slot.BEGAN_NS] == began_ns, (outage.__name__, followed.log.read_text())
        followed.until(lambda: time.monotonic_ns() - followed.page[Slot.HEARTBEAT_NS] < 5e9)
        proxy.restore()
        followed.confirmed()
        Comparison(followed, own_oracle, "d").all()
    own.kill()
    followed.confirmed()
    own.start()
    assert followed.page[Slot.SERVE_MODE] == MODE_SERVE
    with MetastoreClient(*own.address) as client:
        table(client, "d", "after")
    followed.confirmed()
    with Oracle(*own.address) as oracle:
        Comparison(followed, oracle, "d").all()
    assert followed.page[Slot.GENERATION] == generation


def relays(followed: Followed, reason: ModeReason) -> None:
    followed.until(lambda: followed.page[Slot.MODE_REASON] == reason)
    assert followed.page[Slot.SERVE_MODE] == MODE_RELAY_ONLY
    followed.until(lambda: followed.report().get("reason") == reason.label)


def test_metastore_without_a_log(new_metastore: Callable[..., Metastore], follow: Follow) -> None:
    silent = new_metastore("hive42-silent")
    with MetastoreClient(*silent.address) as client:
        objects.create_database(client, "d")
        table(client, "d", "t")
    followed = follow(silent)
    relays(followed, ModeReason.NO_LOG)
    assert followed.page[Slot.BEGAN_NS] == 0
    followed.kill()
    followed.start()
    relays(followed, ModeReason.NO_LOG)


def test_canary(own: Metastore, own_client: MetastoreClient, follow: Follow, database: str) -> None:
    """A write through the proxy did not reach the log: relay; the next one does: everything is reloaded."""
    followed = follow(own)
    followed.loaded()
    followed.until(lambda: followed.page[Slot.SERVE_MODE] == MODE_SERVE)
    generation = followed.page[Slot.GENERATION]
    followed.page[Slot.EXPECTED_EVENT] = followed.page[Slot.UPSTREAM_EVENT] + 1
    relays(followed, ModeReason.NO_LOG)
    unlogged(own, "t", "1")
    followed.kill()
    followed.page[Slot.EXPECTED_EVENT] = 0
    followed.start()
    followed.until(lambda: followed.page[Slot.SERVE_MODE] == MODE_SERVE)
    assert followed.page[Slot.GENERATION] > generation
    with Oracle(*own.address) as oracle:
        followed.loaded()
        Comparison(followed, oracle, "d").all()
    before = followed.page[Slot.UPSTREAM_EVENT]
    table(own_client, "d", "v")
    followed.page[Slot.EXPECTED_EVENT] = before + 1
    followed.confirmed()
    assert followed.page[Slot.SERVE_MODE] == MODE_SERVE


def test_cached_store_behind(new_metastore: Callable[..., Metastore], follow: Follow) -> None:
    followed = follow(new_metastore("hive42-cached"))
    relays(followed, ModeReason.CACHED_STORE)


def test_authorization(own: Metastore, follow: Follow) -> None:
    followed = follow(own, authorization="relay")
    relays(followed, ModeReason.AUTHORIZATION)


def test_another_database(own: Metastore, hms42: Metastore, follow: Follow) -> None:
    assert hms42.database is not None
    relays(follow(own, store_url=hms42.database.reader_url), ModeReason.OTHER_DATABASE)


def test_no_metastore_answers(own: Metastore, follow: Follow) -> None:
    relays(follow(own, upstream="thrift://127.0.0.1:1"), ModeReason.UNCHECKED)


def test_without_a_store(own: Metastore, follow: Follow) -> None:
    followed = follow(own, store_url="", store="none")
    relays(followed, ModeReason.NO_STORE)


def test_a_report_that_cannot_be_written(own: Metastore, follow: Follow) -> None:
    """As on a full disk: following goes on, and /status is told again when there is room."""
    followed = follow(own)
    followed.loaded()
    file = paths.follower_report(followed.config)
    beside = file.with_name(file.name + ".new")

    def blocked() -> bool:
        try:
            beside.mkdir()
        except FileExistsError:  # it is being written
            return False
        return True

    followed.until(blocked)
    followed.until(lambda: "report for /status cannot be written" in followed.log.read_text())
    followed.confirmed()
    beside.rmdir()
    before = followed.report()["time"]
    followed.until(lambda: followed.report()["time"] > before)


def test_full_cache(
    own: Metastore, own_client: MetastoreClient, own_oracle: Oracle, follow: Follow, database: str
) -> None:
    """Tables that have no room are listed and left to the metastore; when there is room again they are loaded."""
    for number in range(30):
        wide = objects.table("d", f"w{number}", objects.wide_columns(900))
        objects.create_table(own_client, wide)
    followed = follow(own, cache__max_bytes=1 << 20, follower__prewarm_chunk=20)
    followed.loaded()
    with followed.reader.snapshot() as cache:
        entries = [cache.table(b"hive", b"d", b"w%d" % number) for number in range(30)]
        listed = cache.table_list(b"hive", b"d")
    full = [entry for entry in entries if entry.body is None]  # type: ignore[union-attr]
    assert listed is not None and len(listed) == 32
    assert full and all(entry.reason_not_loaded == "full" for entry in full)  # type: ignore[union-attr]
    assert followed.page[Slot.CACHE_BYTES] < 2 << 20
    for number in range(25):
        own_client.drop_table("d", f"w{number}", False)
    followed.loaded()
    followed.until(lambda: all_loaded(followed, 25, 30))
    Comparison(followed, own_oracle, "d").all()


def all_loaded(followed: Followed, first: int, last: int) -> bool:
    with followed.reader.snapshot() as cache:
        entries = [cache.table(b"hive", b"d", b"w%d" % number) for number in range(first, last)]
    return all(entry.body is not None for entry in entries)  # type: ignore[union-attr]
