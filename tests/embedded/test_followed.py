"""The embedded metastore's file, followed by a proxy of its own, while the metastore dies or its file is replaced."""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

from thrift.Thrift import TException

from tests.proxy import Proxy
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore
from tests.testbed.objects import add_partitions, create_database, create_table, read_table, table

KILLS, BETWEEN = 2, 10  # deaths, and changes that are acknowledged before each of them
MAX_UNCONFIRMED_S = 10.0
"""The default of max_unconfirmed_ms: so long answers may be given that the follower has confirmed before."""


def followed(metastore: Metastore, directory: Path) -> Proxy:
    """A proxy before it that reads its file."""
    assert metastore.database is not None
    return Proxy(directory, metastore.uri, metastore.database.reader_url).start(prewarmed=True)


def file_of(metastore: Metastore) -> Path:
    assert metastore.database is not None
    return Path(metastore.database.name)


class Changes:
    """Creates, alters and drops tables through the metastore itself, which dies now and then."""

    def __init__(self, metastore: Metastore) -> None:
        self._metastore = metastore
        self.done = 0
        self.stopping = False
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        number = 0
        while not self.stopping:
            with (
                contextlib.suppress(TException, OSError, EOFError),
                MetastoreClient(*self._metastore.address) as client,
            ):
                while not self.stopping:
                    number += 1
                    made = create_table(client, table("d", f"t{number}", partition_keys=[("p", "string")]))
                    add_partitions(client, made, [["1"], ["2"]])
                    changed = read_table(client, "d", f"t{number}")
                    changed.parameters["changed"] = str(number)
                    client.alter_table("d", f"t{number}", changed)
                    if number % 3 == 0:
                        client.drop_table("d", f"t{number - 1}", True)
                    self.done += 1


def test_nothing_is_stale_after_the_metastore_died(new_metastore: Callable[..., Metastore], tmp_path: Path) -> None:
    """What the proxy answers is what the metastore answers, once it has seen the last event; and from its cache."""
    metastore = new_metastore("embedded")
    with MetastoreClient(*metastore.address) as client:
        create_database(client, "d")
    proxy = followed(metastore, tmp_path / "proxy")
    changes = Changes(metastore)
    try:
        changes.thread.start()
        for _ in range(KILLS):
            before = changes.done
            proxy.wait(lambda before=before: changes.done >= before + BETWEEN, "changes")
            metastore.kill()
            metastore.start()
        changes.stopping = True
        changes.thread.join()
        with MetastoreClient(*metastore.address) as source, MetastoreClient(*proxy.address) as client:
            proxy.wait_event(source.get_current_notificationEventId().eventId)
            names = source.get_all_tables("d")
            assert len(names) > KILLS * BETWEEN // 2 and sorted(client.get_all_tables("d")) == sorted(names)
            for name in names:
                assert read_table(client, "d", name) == read_table(source, "d", name)
                assert client.get_partitions("d", name, -1) == source.get_partitions("d", name, -1)

        def hits() -> float:
            return sum(count for (_, outcome, _), count in proxy.requests().items() if outcome == "hit")

        assert hits() > len(names), proxy.requests()
        assert proxy.status()["mode"] == "cache"
        assert proxy.metric("hms_proxy_resets_total") <= 2, "the log was followed, not started over"
    finally:
        changes.stopping = True
        proxy.close()


def test_another_database_resets_the_cache(new_metastore: Callable[..., Metastore], tmp_path: Path) -> None:
    metastore, other = new_metastore("embedded"), new_metastore("embedded")
    for one, name in ((metastore, "mine"), (other, "theirs")):
        with MetastoreClient(*one.address) as client:
            create_database(client, name)
            create_table(client, table(name, "t"))
    proxy = followed(metastore, tmp_path / "proxy")
    try:
        with MetastoreClient(*proxy.address) as client:
            assert client.get_all_databases() == ["default", "mine"]
        other.stop()
        metastore.stop()
        mine = file_of(metastore)
        for end in ("", "-wal", "-shm"):
            mine.with_name(mine.name + end).unlink(missing_ok=True)
        shutil.copy(file_of(other), mine)
        old_until_s = time.monotonic() + MAX_UNCONFIRMED_S
        metastore.start()

        def answered_from_the_new_one() -> bool:
            nonlocal old_until_s
            with contextlib.suppress(TException), MetastoreClient(*proxy.address) as client:
                asked_s = time.monotonic()
                databases = client.get_all_databases()
                if databases == ["default", "mine"] and asked_s < old_until_s:
                    return False  # confirmed before the file was replaced, and the follower waits to look again
                assert databases == ["default", "theirs"]
                old_until_s = 0.0
                assert client.get_all_tables("theirs") == ["t"]
                return proxy.status()["mode"] == "cache" and ("get_all_tables", "hit", "") in proxy.told_requests()
            return False

        proxy.wait(answered_from_the_new_one, "answers from the cache of the other database", 90)
    finally:
        proxy.close()
