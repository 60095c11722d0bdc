"""Snapshots in an object store that checks signatures, through a proxy that makes requests fail. Only one test needs
Spark: the others run a build's tasks in this process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count, cycle
from pathlib import Path

import pytest

from hms_cache_proxy.cache.state import StatePage
from hms_cache_proxy.cache.writer import CacheWriter
from hms_cache_proxy.config import load
from hms_cache_proxy.errors import SnapshotError
from hms_cache_proxy.follower.bootstrap import LoadScope, _Filling
from hms_cache_proxy.pipeline import publish
from hms_cache_proxy.pipeline.progress import LineReport
from hms_cache_proxy.pipeline.session import in_process
from hms_cache_proxy.snapshots import manifest as manifests
from hms_cache_proxy.snapshots import rows, s3
from hms_cache_proxy.snapshots.manifest import Manifest
from hms_cache_proxy.snapshots.place import PAUSES_S, Place, newest
from hms_cache_proxy.snapshots.row_writer import FileWriter
from hms_cache_proxy.snapshots.rows import TableRow
from tests.cache.records import IDENTITY, database, days, table
from tests.pipeline.conftest import Follow
from tests.pipeline.test_bootstrap import bootstrapped, same
from tests.pipeline.test_increment import contents
from tests.pipeline.two_tables import DATABASE, fill
from tests.proxy import Proxy
from tests.testbed import objects
from tests.testbed.bed import Bed
from tests.testbed.client import MetastoreClient
from tests.testbed.http_faults import Fault, HttpFaults, nothing
from tests.testbed.metastore import Metastore

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")
ORDINARY = (Fault.SLOW_DOWN, Fault.BROKEN, Fault.RESET)


def first_fails() -> Callable[[str, str, int], Fault | None]:
    """Each request fails when it is made for the first time, in one way after the other. An upload that is repeated
    has another id, and is the same request."""
    seen, ways = set[tuple[str, str]](), cycle(ORDINARY)

    def choose(method: str, path: str, _before: int) -> Fault | None:
        request = method, re.sub(r"uploadId=[^&]*", "", path)
        if request in seen:
            return None
        seen.add(request)
        return next(ways)

    return choose


def every_fifth_fails() -> Callable[[str, str, int], Fault | None]:
    """... in one way after the other."""
    numbers, ways = count(1), cycle(ORDINARY)
    return lambda method, path, before: None if next(numbers) % 5 else next(ways)


def test_files(faults: HttpFaults, bucket: str) -> None:
    """Small ones and those that are uploaded in several parts come back as they were."""
    place, small, large = Place(f"{bucket}/a b/prod"), b"small", os.urandom(11 << 20)
    assert place.names() == [] and not place.exists("tables")
    place.write("one", small)
    asked = list[str]()

    def record(method: str, path: str, before: int) -> Fault | None:
        asked.append(f"{method} {path}")
        return None

    faults.choose = record
    place.write("tables/part", large)
    assert sum("partNumber=" in one for one in asked) > 1, asked
    assert (place.document("one"), place.document("tables/part")) == (small, large)
    assert place.names() == ["one", "tables"] and place.below("tables").names() == ["part"]
    place.delete("tables")
    assert place.names() == ["one"] and not place.exists("tables/part")


def test_every_request_fails_once(faults: HttpFaults, bucket: str) -> None:
    """The end of an upload, too, after which the store no longer knows it."""
    faults.choose, data = first_fails(), os.urandom(11 << 20)
    place = Place(bucket)
    for name in ("one", "two", "three"):
        place.write(f"tables/{name}", data)
        assert place.document(f"tables/{name}") == data
    assert place.names() == ["tables"]
    assert all(faults.done[fault] for fault in ORDINARY)


def test_an_answer_that_is_cut_short_is_asked_for_again(faults: HttpFaults, bucket: str) -> None:
    place, data = Place(bucket), os.urandom(1 << 20)
    place.write("part", data)
    faults.choose = lambda method, path, before: Fault.CUT if method == "GET" and not before else None
    assert place.document("part") == data and faults.done[Fault.CUT]


def test_a_store_that_is_always_busy(faults: HttpFaults, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """... is given up, after as many attempts as are allowed."""
    monkeypatch.setattr(s3, "ATTEMPTS", 3)
    place = Place(bucket)
    faults.choose = lambda method, path, before: Fault.SLOW_DOWN
    with pytest.raises(SnapshotError, match="cannot be written: .*(SLOW_DOWN|503|reduce your request rate)"):
        place.write("part", b"1")
    assert faults.done[Fault.SLOW_DOWN] == 3 * (1 + len(PAUSES_S))


def test_what_the_store_refuses(faults: HttpFaults, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SnapshotError, match="NO_SUCH_BUCKET"):
        Place("s3://nosuch-bucket/prod").snapshots()
    with pytest.raises(SnapshotError, match="has no snapshot|does not exist"):
        newest(f"{bucket}/nothing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(SnapshotError, match="SIGNATURE_DOES_NOT_MATCH"):
        Place(bucket).names()


def small_snapshot(uri: str) -> Manifest:
    """Two tables, one of which has partitions."""
    place = Place(uri)
    writers = {kind: FileWriter(place, kind, f"{kind}/part") for kind in rows.KINDS}
    writers[rows.DATABASES].add(rows.database_row(0, database()))
    for number, name in enumerate((b"a", b"b")):
        row = TableRow(b"hive", b"sales", name, number, b"MANAGED_TABLE", table(name, number))
        writers[rows.TABLES].add(rows.table_row(0, row))
    for record in days(30):
        writers[rows.PARTITIONS].add(rows.partition_row(0, 1, record.record()))
    files = tuple(file for writer in writers.values() for file in writer.close())
    made = Manifest("0", "now", IDENTITY, (), (), 5, 5, True, b"row 5", None, {}, files)
    place.write(manifests.NAME, made.dump())
    return made


def test_a_byte_that_is_flipped_on_the_way(faults: HttpFaults, bucket: str, tmp_path: Path) -> None:
    """Whatever has been loaded before, the cache is empty; without the fault it is filled."""
    made = small_snapshot(f"{bucket}/one")
    place, found = newest(f"{bucket}/one")
    assert found == made
    with StatePage(tmp_path / "state", create=True) as page:
        writer = CacheWriter.open(tmp_path / "cache", page, IDENTITY)
        faults.choose = lambda method, path, before: (
            Fault.FLIPPED if method == "GET" and "/partitions/" in path else None
        )
        with pytest.raises(SnapshotError, match="the checksum of partitions/.* is wrong"):
            _Filling(writer, made, LoadScope((), (), 1 << 30, 1), lambda: None).run(place)
        assert (writer.meta.cursor, writer.counts()) == (0, {"databases": 0, "tables": 0, "partitions": 0})
        faults.choose = nothing
        _Filling(writer, made, LoadScope((), (), 1 << 30, 1), lambda: None).run(place)
        assert writer.counts() == {"databases": 1, "tables": 2, "partitions": 30}
        writer.close()


@pytest.fixture(scope="module")
def metastore(bed: Bed) -> Iterator[Metastore]:
    """An embedded one with two tables."""
    made = bed.private_metastore("embedded")
    with MetastoreClient(*made.address) as client:
        client.get_metastore_db_uuid()
        fill(client)
    yield made
    bed.release(made)


def url_of(metastore: Metastore) -> str:
    assert metastore.database is not None
    return metastore.database.reader_url


def test_published_increments_and_bootstrap(
    metastore: Metastore, faults: HttpFaults, bucket: str, tmp_path: Path, follow: Follow
) -> None:
    """While every fifth request fails: the records are those of local files, and a cache that is filled from them is
    the one that a follower reads from the database."""
    faults.choose = every_fifth_fails()
    config, report = load(cli={"store_url": url_of(metastore)}), LineReport(lambda line: None)

    def full(uri: str, keep: int) -> str:
        return publish.publish(in_process, config, uri, keep, 2, report)[0]

    uri, local = full(bucket, 2), (tmp_path / "local").as_uri()
    assert contents(uri) == contents(full(local, 2))
    with MetastoreClient(*metastore.address) as client:
        drifted = objects.read_table(client, DATABASE, "drifted")
        client.add_partitions([objects.partition(drifted, ["9"])])
    later, _ = publish.increment(config, bucket, 1, report)
    assert contents(later) == contents(full(local, 2))
    assert [place.uri for place in Place(bucket).snapshots()] == [later, uri], "the increment needs the full one"
    filled = follow(metastore, bootstrap=bucket)
    assert same(follow(metastore), filled) > 5
    assert bootstrapped(filled)["uri"] == later
    assert all(faults.done[fault] for fault in ORDINARY)
    full(bucket, 1)
    assert len(Place(bucket).names()) == 1, "those that are not needed are removed"


@pytest.mark.timeout(1800)
def test_spark_and_serve(
    metastore: Metastore, faults: HttpFaults, bucket: str, pipeline_extra: None, new_proxy: Callable[..., Proxy]
) -> None:
    """The commands as in the documentation: Spark's tasks write to the store, and a proxy starts from it."""
    command = [sys.executable, "-c", "from hms_cache_proxy.cli import main; main()", "snapshot", "publish"]
    command += ["--out", bucket.replace("s3://", "s3a://"), "--master", "local[2]", "--connections", "2"]
    environment = {**os.environ, "HMS_CACHE_PROXY_STORE_URL": url_of(metastore)}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert "partitions as of event" in ended.stdout
    proxy = new_proxy(metastore, settings={"BOOTSTRAP": bucket})
    assert "bootstrap done" in proxy.log.read_text() and proxy.status()["objects"]["tables"] == 2
