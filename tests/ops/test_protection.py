"""`[protection]` with real clients: calls that are refused or have to wait, and settings that change at SIGHUP."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hive_metastore.ttypes import (  # type: ignore[import-untyped]  # generated
    AllocateTableWriteIdsRequest,
    CommitTxnRequest,
    Function,
    LockComponent,
    LockLevel,
    LockRequest,
    LockType,
    MetaException,
    OpenTxnRequest,
)
from thrift.Thrift import TApplicationException

from hms_cache_proxy.config import Config, to_json
from hms_cache_proxy.config.changeable import changeable
from hms_cache_proxy.config.protection import ProtectionSection
from tests.proxy import Proxy
from tests.testbed import objects
from tests.testbed.client import MetastoreClient
from tests.testbed.fault_proxy import Direction, FaultProxy
from tests.testbed.processes import wait_until
from tests.testbed.raw import RawConnection, encode_call

pytestmark = pytest.mark.real
DATABASES = encode_call("get_all_databases")


@pytest.fixture(scope="module")
def metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """An embedded metastore behind a proxy that only relays, with the databases sales, vault and secret."""
    started = Proxy(tmp_path_factory.mktemp("metastore"), "", settings={"EMBEDDED": "true", "STORE": "none"}).start()
    with MetastoreClient(*started.address) as client:
        for name in ("sales", "vault", "secret"):
            objects.create_database(client, name)
            objects.create_table(client, objects.table(name, "t", partition_keys=(("day", "string"),)))
    yield started
    started.close()


class Protected:
    """A proxy with a cache, whose `[protection]` can be changed."""

    def __init__(self, directory: Path, metastore: Proxy) -> None:
        self.file = directory / "proxy.toml"
        self.file.write_text("")
        database = metastore.directory / "data" / "metastore" / "metastore.db"
        settings = {"CONFIG": str(self.file), "UPSTREAM_OPTIONS_QUEUE_TIMEOUT_S": "2"}
        self.proxy = Proxy(directory / "proxy", metastore.uri, f"sqlite:///{database}", settings=settings)
        self.proxy.start(prewarmed=True)

    def protect(self, lines: str) -> None:
        """SIGHUP, and until it is in force."""
        before = self.proxy.metric("hms_proxy_reloads_total", what="settings", result="loaded")
        self.file.write_text(f"[protection]\n{lines}\n")
        assert self.proxy.process is not None
        self.proxy.process.send_signal(signal.SIGHUP)
        name = "hms_proxy_reloads_total"
        self.proxy.wait(lambda: self.proxy.metric(name, what="settings", result="loaded") > before, "protected")


@pytest.fixture(scope="module")
def protected(metastore: Proxy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Protected]:
    made = Protected(tmp_path_factory.mktemp("protected"), metastore)
    yield made
    made.proxy.close()


def refused(words: str, call: Callable[..., Any], *arguments: Any) -> None:
    with pytest.raises((MetaException, TApplicationException)) as caught:
        call(*arguments)
    assert words in caught.value.message, caught.value.message


def test_databases_whose_writes_or_reads_are_refused(protected: Protected) -> None:
    with MetastoreClient(*protected.proxy.address) as client:
        for _ in range(3):
            client.get_table("secret", "t")  # the cache knows it, and may answer from what is kept
        protected.protect('refuse_writes = ["VAU*"]\nrefuse_reads = ["secret"]')
        words = "is refused by the proxy: protection.refuse_writes has the database vault"
        vault = client.get_table("vault", "t")
        with pytest.raises(MetaException, match="create_table is refused by the proxy: protection.refuse_writes has"):
            client.create_table(objects.table("vault", "new"))
        refused(words, client.drop_table, "vault", "t", True)
        refused(words, client.drop_database, "vault", True, True)
        refused(words, client.add_partitions, [objects.partition(vault, ["1"])])
        refused(words, client.create_function, Function(functionName="f", dbName="vault", className="c"))
        moved = client.get_table("sales", "t")
        moved.dbName = "vault"
        refused(words, client.alter_table, "sales", "t", moved)
        opened = client.open_txns(OpenTxnRequest(num_txns=1, user="u", hostname="h"))
        request = AllocateTableWriteIdsRequest(dbName="vault", tableName="t", txnIds=opened.txn_ids)
        refused(words, client.allocate_table_write_ids, request)
        client.commit_txn(CommitTxnRequest(txnid=opened.txn_ids[0]))
        assert client.add_partitions([objects.partition(client.get_table("sales", "t"), ["1"])]) == 1

        words = "protection.refuse_reads has the database secret"
        for _ in range(2):
            refused(words, client.get_table, "secret", "t")
        refused(words, client.get_partition_names, "secret", "t", -1)
        refused(words, client.get_database, "SECRET")
        assert set(client.get_all_databases()) >= {"secret", "vault", "sales"}
        protected.protect("")
        assert client.get_table("secret", "t").tableName == "t"
    counted = protected.proxy.requests()
    assert counted["create_table", "error", "refused"] == 1 and counted["get_table", "error", "refused"] == 2
    protected.proxy.wait(lambda: "forbidden by [protection]" in protected.proxy.get("/status")[1], "shown")


def test_read_only(protected: Protected) -> None:
    protected.protect("read_only = true")
    with MetastoreClient(*protected.proxy.address) as client:
        words = "would change something, and protection.read_only = true"
        refused(words, objects.create_database, client, "new")
        refused(words, client.drop_table, "sales", "t", True)
        refused(words, client.drop_partition, "sales", "t", ["1"], False)
        assert client.get_table("sales", "t").tableName == "t"
        (txn,) = client.open_txns(OpenTxnRequest(num_txns=1, user="u", hostname="h")).txn_ids
        shared = LockComponent(type=LockType.SHARED_READ, level=LockLevel.TABLE, dbname="sales", tablename="t")
        exclusive = LockComponent(type=LockType.EXCLUSIVE, level=LockLevel.TABLE, dbname="sales", tablename="t")
        client.lock(LockRequest(component=[shared], txnid=txn, user="u", hostname="h"))
        refused(words, client.lock, LockRequest(component=[exclusive], user="u", hostname="h"))
        client.commit_txn(CommitTxnRequest(txnid=txn))
    with RawConnection(*protected.proxy.address) as raw:
        message = encode_call("get_table", "sales", "t").replace(b"get_table", b"zap_table")
        assert b"zap_table is refused by the proxy" in raw.call(message)
    assert protected.proxy.requests()["drop_table", "error", "read_only"] == 1
    (worker,) = protected.proxy.children()["worker"]
    os.kill(worker, signal.SIGKILL)
    protected.proxy.wait(lambda: protected.proxy.children()["worker"] not in ([], [worker]), "restarted")
    protected.proxy.wait(protected.proxy.ready, "ready")
    with MetastoreClient(*protected.proxy.address) as client:  # a new worker begins with what is in force
        refused("protection.read_only", client.drop_table, "sales", "t", True)
    protected.protect("")


def test_a_wrong_file_and_settings_that_need_a_restart(protected: Protected) -> None:
    def said(words: str) -> Callable[[], bool]:
        return lambda: words in protected.proxy.log.read_text()

    assert protected.proxy.process is not None
    protected.file.write_text("[protection]\nread_only = 'perhaps'\n")
    protected.proxy.process.send_signal(signal.SIGHUP)
    protected.proxy.wait(said("the settings cannot be read again"), "said")
    counted = {"what": "settings", "result": "failed"}
    protected.proxy.wait(lambda: protected.proxy.metric("hms_proxy_reloads_total", **counted) == 1, "counted")
    protected.file.write_text("max_unconfirmed_ms = 12345\n")
    protected.proxy.process.send_signal(signal.SIGHUP)
    protected.proxy.wait(said("need a restart"), "said")
    assert "max_unconfirmed_ms" in protected.proxy.log.read_text()
    with MetastoreClient(*protected.proxy.address) as client:
        client.get_table("sales", "t")


def test_a_user_with_many_calls_waits(metastore: Proxy, tmp_path: Path) -> None:
    """Reads of two connections of one user, of which one may be at the metastore: one after the other. Those of another
    user pass. After the longest wait a call fails, and says which setting it was."""
    settings = {"STORE": "none", "PROTECTION_CALLS_PER_USER": "1", "UPSTREAM_OPTIONS_QUEUE_TIMEOUT_S": "6"}
    with ExitStack() as stack:
        slow = stack.enter_context(FaultProxy(*metastore.address))
        proxy = Proxy(tmp_path / "proxy", f"thrift://127.0.0.1:{slow.port}", settings=settings).start()
        stack.callback(proxy.close)
        clients = [stack.enter_context(MetastoreClient(*proxy.address)) for _ in range(3)]
        for client, user in zip(clients, ("etl", "etl", "bi"), strict=True):
            client.set_ugi(user, [user])
        threads = stack.enter_context(ThreadPoolExecutor(3))
        stack.callback(slow.restore)  # what fails here ends
        calls = stalled(slow, threads, clients)
        slow.restore()
        assert [bool(call.result()) for call in calls] == [True] * 3

        first, second, other = stalled(slow, threads, clients)
        with pytest.raises(MetaException) as caught:
            second.result()
        assert "protection.calls_per_user = 1 allows" in caught.value.message
        slow.restore()
        assert first.result() == other.result()
        # Its probes went unanswered, too: until the next one set_ugi is answered by the proxy, and opens no connection.
        proxy.wait(lambda: proxy.metric("hms_proxy_upstream_circuit") == 0, "healthy")

        with RawConnection(*proxy.address) as gone:
            gone.call(encode_call("set_ugi", "etl", ["etl"]))
            slow.stall()
            taken = slow.bytes_taken[Direction.UP]
            gone.send(DATABASES)
            assert wait_until(lambda: slow.bytes_taken[Direction.UP] > taken)
        slow.restore()  # it was at the metastore when its client went, and held its place until it ended
        assert wait_until(lambda: answers(clients[0]) and answers(clients[1]))
        assert proxy.requests()["get_all_databases", "error", "user_busy"] >= 1


def stalled(slow: FaultProxy, threads: ThreadPoolExecutor, clients: list[MetastoreClient]) -> list[Future[list[str]]]:
    """A call of each client, while nothing reaches the metastore; of the first two, which are one user's, only the
    first has left."""
    slow.stall()
    taken, calls = slow.bytes_taken[Direction.UP], list[Future[list[str]]]()

    def left() -> int:
        return (slow.bytes_taken[Direction.UP] - taken) // len(DATABASES)

    calls.append(threads.submit(clients[0].get_all_databases))
    assert wait_until(lambda: left() == 1)
    calls += [threads.submit(client.get_all_databases) for client in clients[1:]]
    assert wait_until(lambda: left() >= 2), "another user's call passes"
    time.sleep(0.5)
    assert left() == 2, "one waits for the other"
    return calls


def answers(client: MetastoreClient) -> bool:
    try:
        return bool(client.get_all_databases())
    except MetaException:
        return False


def test_metastores_in_turn(metastore: Proxy, tmp_path: Path) -> None:
    """New connections go to two metastores in turn, and to the other one while one is down."""
    with FaultProxy(*metastore.address) as one, FaultProxy(*metastore.address) as two:
        uris = f"thrift://127.0.0.1:{one.port},thrift://127.0.0.1:{two.port}"
        settings = {"STORE": "none", "UPSTREAM_OPTIONS_CHOICE": "round_robin"}
        proxy = Proxy(tmp_path / "proxy", uris, settings=settings).start()
        try:
            before = [one.accepted, two.accepted]
            read_databases(proxy, 8)
            new = [now - then for now, then in zip((one.accepted, two.accepted), before, strict=True)]
            assert min(new) >= 4, new  # the status page asks both, too
            one.refuse()
            read_databases(proxy, 4)
        finally:
            proxy.close()


def read_databases(proxy: Proxy, connections: int) -> None:
    for _ in range(connections):
        with MetastoreClient(*proxy.address) as client:
            assert "sales" in client.get_all_databases()


def test_slow_calls_get_a_line(metastore: Proxy, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    with FaultProxy(*metastore.address) as slow:
        settings = {"STORE": "none", "SLOW_LOG_DIRECTORY": str(logs), "SLOW_LOG_THRESHOLD_S": "1.5"}
        proxy = Proxy(tmp_path / "proxy", f"thrift://127.0.0.1:{slow.port}", settings=settings).start()
        try:
            with MetastoreClient(*proxy.address) as client:
                client.set_ugi("etl", ["etl"])
                client.get_table("sales", "t")
                slow.delay(2, Direction.DOWN)
                client.get_table("vault", "t")
            assert proxy.stop() == 0
        finally:
            proxy.close()
    lines = [json.loads(line) for line in (logs / "slow-0.jsonl").read_text().splitlines()]
    (line,) = [line for line in lines if line["object"] == "hive.vault.t"]
    assert (line["method"], line["user"], line["outcome"]) == ("get_table", "etl", "relay")
    assert 2_000_000 <= line["metastore_us"] <= line["us"]
    assert all(one["us"] >= 1_500_000 for one in lines)


@pytest.mark.parametrize("read_only", ["false", "true"])
def test_what_was_changed_does_not_outlive_the_proxy(tmp_path: Path, read_only: str) -> None:
    """Nor if the next one has no file of settings."""
    earlier = Config(protection=ProtectionSection(read_only=read_only == "false"))
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "settings.json").write_bytes(to_json(changeable(earlier)))
    proxy = Proxy(
        tmp_path, "", settings={"EMBEDDED": "true", "STORE": "none", "PROTECTION_READ_ONLY": read_only}
    ).start()
    try:
        with MetastoreClient(*proxy.address) as client:
            if read_only == "true":
                refused("read_only", objects.create_database, client, "free")
            else:
                objects.create_database(client, "free")
    finally:
        proxy.close()
