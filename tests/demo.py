"""`make run`: the proxy in front of a metastore with a little data, until Ctrl-C.

Job: start the real `hms-cache-proxy serve`, put one partitioned table in, print how to use it. With the embedded
metastore (the default; its database and tables stay in ./hms-cache-proxy-data), or `--hive`: a Hive 4 metastore on
PostgreSQL, which begins empty each time. Must not know: how any of them works inside.
Invariants: without `--hive` it needs nothing but the package itself.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hms_cache_proxy.upstream.service import Declared, ServiceConnection
from hms_cache_proxy.wire import spec

READY_TIMEOUT_S = 240.0
CALL_TIMEOUT_S = 60.0
PORTS = {"LISTEN": 9083, "HTTP": 9084, "ADMIN_LISTEN": 9085}  # as in the documents, where they are free
PARTITIONS = 90
DATA_DIR = Path("hms-cache-proxy-data")

TEXT = """
hms-cache-proxy is in front of {metastore}.

  metastore URI for clients   {uri}
  status page                 {page}
{more}
Spark (any of 3 and 4; `pip install pyspark` and Java 17 do):

  spark-sql --conf spark.hadoop.hive.metastore.uris={uri} \\
    -e "SHOW PARTITIONS demo.events; DESCRIBE demo.events; CREATE TABLE demo.mine AS SELECT 1 AS id; TABLE demo.mine"

Hits, misses and their reasons:  curl -s {page}metrics | grep hms_proxy_requests_total
Ctrl-C ends everything.
"""


class DemoError(Exception):
    """Something did not start; the message says what."""


@dataclass(frozen=True, slots=True)
class Behind:
    """What the proxy is started with, and what to say of the metastore behind it."""

    arguments: list[str]
    settings: dict[str, str]
    data_dir: Path
    metastore: str
    more: str


def main() -> int:
    """Run until SIGINT or SIGTERM; 1 with one line if something does not start."""
    parser = argparse.ArgumentParser(prog="make run", description=__doc__)
    parser.add_argument("--hive", action="store_true", help="a Hive 4 metastore on PostgreSQL, as the tests have it")
    hive = parser.parse_args().hive
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with ExitStack() as stack:
        try:
            behind = stack.enter_context(_hive()) if hive else _embedded()
            proxy = _start(behind)
            stack.callback(_end, proxy)
            addresses = _wait_ready(proxy, behind.data_dir / "addresses.json")
            _fill(addresses["listen"])
            print(_text(behind, addresses), flush=True)
            return proxy.wait()
        except DemoError as error:
            print(f"make run: {error}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            print("ending ...", flush=True)
            return 0


def _embedded() -> Behind:
    kept = f"  its database and tables     {DATA_DIR.resolve()}   (they stay; remove it to start over)\n"
    return Behind(["--embedded"], {}, DATA_DIR, "an embedded metastore", kept)


@contextmanager
def _hive() -> Iterator[Behind]:
    from tests.testbed.__main__ import down, up
    from tests.testbed.artifacts import BedError
    from tests.testbed.postgres import Collation

    print("starting PostgreSQL and a Hive 4 metastore (the first time, downloads take minutes) ...", flush=True)
    with tempfile.TemporaryDirectory(prefix="hms-cache-proxy-demo-") as directory:
        state_file = Path(directory, "testbed.json")
        try:
            metastore = up(state_file, ["hive42"], Collation.C)["metastores"]["hive42"]
        except BedError as error:
            raise DemoError(str(error)) from error
        try:
            settings = {"UPSTREAM": metastore["uri"], "STORE_URL": metastore["reader_url"]}
            itself = f"  the metastore itself        {metastore['uri']}   (for changes behind the proxy's back)\n"
            name = f"a Hive {metastore['version']} metastore on PostgreSQL"
            yield Behind([], settings, Path(directory, "data"), name, itself)
        finally:
            down(state_file)


def _start(behind: Behind) -> subprocess.Popen[bytes]:
    """The real command, configured by the environment; in a session of its own, so that Ctrl-C is ours."""
    given = {**behind.settings, "DATA_DIR": str(behind.data_dir)}
    given |= {name: f"127.0.0.1:{port if _free(port) else 0}" for name, port in PORTS.items()}
    environment = {**os.environ, **{f"HMS_CACHE_PROXY_{name}": value for name, value in given.items()}}
    (behind.data_dir / "addresses.json").unlink(missing_ok=True)
    command = [sys.executable, "-m", "hms_cache_proxy", "serve", *behind.arguments]
    return subprocess.Popen(command, env=environment, start_new_session=True)


def _end(proxy: subprocess.Popen[bytes]) -> None:
    if proxy.poll() is None:
        proxy.send_signal(signal.SIGTERM)
        proxy.wait(60)


def _free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        return probe.connect_ex(("127.0.0.1", port)) != 0


def _wait_ready(proxy: subprocess.Popen[bytes], file: Path) -> dict[str, Any]:
    """Where the proxy listens, once it serves from its cache."""
    deadline = time.monotonic() + READY_TIMEOUT_S
    while time.monotonic() < deadline and proxy.poll() is None:
        if file.exists():
            addresses: dict[str, Any] = json.loads(file.read_text())
            with urllib.request.urlopen(f"http://{addresses['http']}/status", timeout=5) as response:
                status = json.load(response)
            if status["ready"] and status["prewarm"]["done"]:
                return addresses
        time.sleep(0.1)
    raise DemoError("the proxy did not become ready; its log is above")


def _fill(address: str) -> None:
    """demo.events, partitioned by day: something to look at."""
    host, _, port = address.rpartition(":")
    with ServiceConnection(host, int(port), timeout_s=CALL_TIMEOUT_S) as metastore:
        try:
            metastore.call("create_database", database=_struct("Database", name=b"demo"))
        except Declared as error:
            if type(error.struct).__name__ == "AlreadyExistsException":
                return  # made by an earlier run
            raise
        metastore.call("create_table", tbl=_events())
        metastore.call("add_partitions", new_parts=[_day(number) for number in range(PARTITIONS)])


def _events() -> Any:
    keys = [_struct("FieldSchema", name=b"day", type=b"string")]
    table = {"parameters": {b"EXTERNAL": b"TRUE"}, "tableType": b"EXTERNAL_TABLE", "partitionKeys": keys}
    return _struct("Table", dbName=b"demo", tableName=b"events", sd=_storage(), **table)


def _day(number: int) -> Any:
    values = [b"2026-%02d-%02d" % (1 + number // 30, 1 + number % 30)]
    return _struct("Partition", dbName=b"demo", tableName=b"events", values=values, sd=_storage(), parameters={})


def _storage() -> Any:
    columns = [(b"id", b"bigint"), (b"user", b"string"), (b"price", b"decimal(18,4)")]
    return _struct(
        "StorageDescriptor",
        cols=[_struct("FieldSchema", name=name, type=kind) for name, kind in columns],
        inputFormat=b"org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat",
        outputFormat=b"org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat",
        serdeInfo=_struct(
            "SerDeInfo", serializationLib=b"org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe", parameters={}
        ),
        compressed=False,
        numBuckets=-1,
        bucketCols=[],
        sortCols=[],
        parameters={},
    )


def _struct(kind: str, /, **fields: Any) -> Any:
    return spec.struct(kind)(**fields)


def _text(behind: Behind, addresses: dict[str, Any]) -> str:
    uri, page = f"thrift://{addresses['listen']}", f"http://{addresses['http']}/"
    return TEXT.format(metastore=behind.metastore, uri=uri, page=page, more=behind.more)


if __name__ == "__main__":
    sys.exit(main())
