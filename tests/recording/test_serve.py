"""`serve --record` and `serve --replay` as processes: what clients read, they read again without the metastore."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hive_metastore.ttypes import MetaException  # type: ignore[import-untyped]  # generated
from pyiceberg.catalog.hive import HiveCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from tests.chance import chance, run_seed
from tests.differential.compare import BROKEN_OFF, answer
from tests.differential.contents import fill
from tests.differential.reads import Reads
from tests.proxy import Proxy
from tests.testbed import objects
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore
from tests.testbed.raw import RawConnection, encode_call

pytestmark = pytest.mark.real
SECRETS = ("the-user-of-the-session", "the-group-of-the-session", "the-name-of-the-token", "the-token-itself")
READS = 250


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Proxy]]:
    """start("upstream URI or nothing", SETTING="value"): a proxy without a store."""
    with ExitStack() as stack:
        numbers = itertools.count()

        def make(upstream: str = "", *, store_url: str | None = None, **settings: str) -> Proxy:
            proxy = Proxy(tmp_path / f"proxy{next(numbers)}", upstream, store_url=store_url, settings=settings)
            stack.callback(proxy.close)
            return proxy.start(prewarmed=store_url is not None)

        yield make


@pytest.fixture
def embedded(new_metastore: Callable[..., Metastore]) -> Metastore:
    """A metastore of the test's own, to stop."""
    return new_metastore("embedded")


@pytest.mark.parametrize("store", ["none", "sql"])
def test_reads_are_equal(
    start: Callable[..., Proxy], hms42: Metastore, unique_name: str, tmp_path: Path, store: str
) -> None:
    """Of Hive 4.2: relayed and from the cache, by two workers, framed and not, each reply byte for byte."""
    path = tmp_path / "recording"
    assert hms42.database is not None
    followed = {"store_url": hms42.database.reader_url, "INCLUDE": f"{unique_name}*.*"} if store == "sql" else {}
    proxy = start(hms42.uri, STORE=store, RECORD=str(path), WORKERS="2", **followed)
    with MetastoreClient(*hms42.address) as client:
        world = fill(client, unique_name, run_seed(), databases=1, tables=8, partitions=5)
    reads = itertools.islice(Reads(world, run_seed()), READS)
    requests = [encode_call(method, **arguments) for method, arguments in reads]
    requests += [encode_call("get_partitions", database, table, -1) for database, table in list(_tables(world))[:3]]
    shown: dict[bytes, bytes] = {}
    chosen = chance("connections")
    with ExitStack() as stack:
        several = [stack.enter_context(RawConnection(*proxy.address, framed=number > 3)) for number in range(6)]
        for request in [*requests, *requests]:
            shown[request] = answer(chosen.choice(several), request)
        _secrets(stack.enter_context(MetastoreClient(*proxy.address)))
    counted = proxy.requests()
    assert proxy.metric("hms_proxy_recorded_total", result="kept") > len(shown) / 2
    if store == "sql":
        assert sum(count for (_, outcome, _), count in counted.items() if outcome == "hit") > READS / 2
    proxy.close()
    session = [encode_call("set_ugi", "u", ["g", "h"]), encode_call("setMetaConf", "metastore.try.direct.sql", "true")]
    with RawConnection(*hms42.address) as direct:
        agreed = [direct.call(call) for call in session]
    content = path.read_bytes()
    assert not [secret for secret in SECRETS if secret.encode() in content]
    assert path.stat().st_mode & 0o777 == 0o600

    replay = start(REPLAY=str(path), WORKERS="2")
    results = {request: reply for request, reply in shown.items() if reply[3:4] == b"\x02"}
    assert len(results) > len(shown) * 3 // 4
    with RawConnection(*replay.address) as plain, RawConnection(*replay.address, framed=True) as framed:
        assert [plain.call(call) for call in session] == agreed, "as the metastore itself"
        for request, reply in shown.items():
            connection = chosen.choice([plain, framed])
            given = answer(connection, request)
            if request in results:
                assert given == reply, request
            else:  # a fault of the metastore is no result
                assert reply in (b"", BROKEN_OFF) or reply[3] == 3
                assert given == reply or b"does not hold this call" in given
    assert replay.status()["mode"] == "replay"


def _tables(world: object) -> Iterator[tuple[str, str]]:
    for note in world.tables:  # type: ignore[attr-defined]
        yield note.database, note.name


def _secrets(client: MetastoreClient) -> None:
    """Calls that must not be found in a recording, though the metastore answers them."""
    user, group, name, token = SECRETS
    client.set_ugi(user, [group])
    assert client.add_token(name, token)
    assert client.get_token(name) == token
    assert name in client.get_all_token_identifiers()
    assert client.remove_token(name)


def test_pyiceberg(start: Callable[..., Proxy], embedded: Metastore, tmp_path: Path) -> None:
    """A catalog is read again with the metastore gone, and written to in vain."""
    path = tmp_path / "recording"
    proxy = start(embedded.uri, STORE="none", RECORD=str(path))
    warehouse = (tmp_path / "warehouse").as_uri()

    def catalog(uri: str) -> HiveCatalog:
        return HiveCatalog("c", uri=uri, warehouse=warehouse)

    schema = Schema(NestedField(1, "id", LongType(), required=False))
    made = catalog(proxy.uri)
    made.create_namespace("ns")
    made.create_table("ns.t", schema)

    def read(uri: str) -> object:
        with_it = catalog(uri)
        table = with_it.load_table("ns.t")
        names = with_it.list_namespaces(), with_it.list_tables("ns"), with_it.load_namespace_properties("ns")
        return names, table.schema(), table.metadata, with_it.table_exists("ns.absent")

    before = read(proxy.uri)
    proxy.close()
    embedded.stop()
    replay = start(REPLAY=str(path))
    assert read(replay.uri) == before
    with pytest.raises(MetaException, match="create_database is refused: this is a replay"):
        catalog(replay.uri).create_namespace("other")
    with pytest.raises(MetaException, match=r"get_table\w*: the recording .* does not hold this call"):
        catalog(replay.uri).load_table("ns.other")


def test_a_recording_goes_on(start: Callable[..., Proxy], embedded: Metastore, tmp_path: Path) -> None:
    """After kill -9, of a worker and of all; a torn end is cut, with a line in the log; what was there is there."""
    path = tmp_path / "recording"
    with MetastoreClient(*embedded.address) as client:
        for number in range(6):
            objects.create_database(client, f"d{number}")

    def read(proxy: Proxy, number: int) -> bytes:
        with RawConnection(*proxy.address) as connection:
            return connection.call(encode_call("get_database", f"d{number}"))

    first = start(embedded.uri, STORE="none", RECORD=str(path), WORKERS="2")
    shown = [read(first, 0)]
    first.wait(lambda: first.status()["recording"]["results"] >= 1, "recording")
    for pid in first.children()["worker"]:
        subprocess.run(["kill", "-9", str(pid)], check=True)
    first.wait(lambda: first.status()["workers"]["restarts"] == 2 and first.ready() and _answers(first), "back")
    recorded = first.status()["recording"]["results"]
    shown.append(read(first, 1))
    first.wait(lambda: first.status()["recording"]["results"] > recorded, "recording")
    first.kill()
    with path.open("ab") as file:
        file.write(b"\0\0\0\x40 half a record")
    second = start(embedded.uri, STORE="none", RECORD=str(path))
    assert (
        "the damaged end of the recording was removed" in second.log.read_text()
        and "18 bytes" in second.log.read_text()
    )
    shown.append(read(second, 2))
    facts = second.status()["recording"]
    second.close()
    assert facts["active"] and facts["file"] == str(path) and facts["left_s"] is None
    os.truncate(path, path.stat().st_size - 5)
    replay = start(REPLAY=str(path))
    assert "the recording is damaged" in replay.log.read_text() and "5 bytes too early" in replay.log.read_text()
    assert [read(replay, number) for number in range(2)] == shown[:2]
    assert b"does not hold this call" in read(replay, 2)


def _answers(proxy: Proxy) -> bool:
    try:
        with MetastoreClient(*proxy.address) as client:
            return bool(client.get_config_value("hive.metastore.uris", "none"))  # which is not recorded
    except Exception:  # noqa: BLE001  # of whatever kind: not yet
        return False


def test_it_ends_at_its_time(start: Callable[..., Proxy], embedded: Metastore, tmp_path: Path) -> None:
    for lasts in ("8s", "80s"):  # a busy machine may need the shorter time to start
        proxy = start(embedded.uri, STORE="none", RECORD=str(tmp_path / f"recording-{lasts}"), RECORD_FOR=lasts)
        with MetastoreClient(*proxy.address) as client:
            client.get_all_databases()
        if proxy.status()["recording"]["active"]:
            break
        proxy.close()
    else:
        raise AssertionError("nothing is recorded")
    with MetastoreClient(*proxy.address) as client:
        proxy.wait(lambda: not proxy.status()["recording"]["active"], "over")
        proxy.wait(lambda: proxy.status()["recording"]["results"] == 1, "counted")
        client.get_all_tables("default")
    proxy.wait(lambda: "record_for is over" in proxy.log.read_text(), "told")
    time.sleep(0.5)
    assert proxy.status()["recording"]["results"] == 1


def test_a_file_that_is_no_recording(tmp_path: Path) -> None:
    path = tmp_path / "mine"
    path.write_text("precious")
    for options in (["--replay", str(path)], ["--record", str(path), "--upstream", "thrift://127.0.0.1:1"]):
        command = [sys.executable, "-m", "hms_cache_proxy", "serve", *options, "--data-dir", str(tmp_path / "data")]
        command += ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]
        environment = {**os.environ, "HMS_CACHE_PROXY_ADMIN_LISTEN": "127.0.0.1:0"}
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
        assert ended.returncode == 2 and f"{path} is not a recording" in ended.stderr, ended.stderr
    assert path.read_text() == "precious"
