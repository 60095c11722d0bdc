"""`make run`: a Hive 4 metastore on PostgreSQL with a little data, the proxy before it, until Ctrl-C.

Job: start the test bed's servers and the real `hms-cache-proxy serve`, put one partitioned table in,
print how to use it. Must not know: how either works inside. The metastore keeps nothing: it begins empty
each time.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.testbed.__main__ import down, up
from tests.testbed.artifacts import BedError
from tests.testbed.client import MetastoreClient
from tests.testbed.objects import add_partitions, create_database, create_table, table
from tests.testbed.postgres import Collation

READY_TIMEOUT_S = 60.0
PORTS = {"LISTEN": 9083, "HTTP": 9084, "ADMIN_LISTEN": 9085}  # as in the documents, where they are free
PARTITIONS = 90

TEXT = """
hms-cache-proxy is before a Hive {version} metastore on PostgreSQL.

  metastore URI for clients   {uri}
  status page                 {page}
  the metastore itself        {upstream}   (change something behind the proxy's back there)

Spark {spark}, from this checkout (the JDK that was installed for the metastore runs it):

  . .venv/bin/activate
  spark-sql --conf spark.hadoop.hive.metastore.uris={uri} \\
    --conf spark.sql.catalogImplementation=hive \\
    --conf spark.sql.warehouse.dir={warehouse} \\
    -e "SHOW DATABASES; SHOW PARTITIONS demo.events; DESCRIBE demo.events"

Hits, misses and their reasons:  curl -s {page}metrics | grep hms_proxy_requests_total
Ctrl-C ends everything.
"""


def main() -> int:
    """Run until SIGINT or SIGTERM; 1 with one line if something does not start."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="hms-cache-proxy-demo-") as directory, ExitStack() as stack:
        print("starting PostgreSQL and a Hive 4 metastore (the first time, downloads take minutes) ...", flush=True)
        try:
            state_file = Path(directory, "testbed.json")
            metastore = up(state_file, ["hive42"], Collation.C)["metastores"]["hive42"]
            stack.callback(down, state_file)
            _fill(metastore)
            proxy = _start(metastore, directory)
            stack.callback(_end, proxy)
            print(_text(metastore, _wait_ready(proxy, Path(directory, "data/addresses.json"))), flush=True)
            return proxy.wait()
        except BedError as error:
            print(f"make run: {error}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            print("ending ...", flush=True)
            return 0


def _fill(metastore: dict[str, Any]) -> None:
    """demo.events, partitioned by day: something to look at."""
    with MetastoreClient(metastore["host"], metastore["port"]) as client:
        create_database(client, "demo")
        columns = [("id", "bigint"), ("user", "string"), ("price", "decimal(18,4)")]
        events = create_table(client, table("demo", "events", columns, [("day", "string")]))
        add_partitions(client, events, [[f"2026-{1 + n // 30:02}-{1 + n % 30:02}"] for n in range(PARTITIONS)])


def _start(metastore: dict[str, Any], directory: str) -> subprocess.Popen[bytes]:
    """The real command, configured by the environment; in a session of its own, so that Ctrl-C is ours."""
    environment = {**os.environ, "HMS_CACHE_PROXY_UPSTREAM": metastore["uri"]}
    environment["HMS_CACHE_PROXY_STORE_URL"] = metastore["reader_url"]
    environment["HMS_CACHE_PROXY_DATA_DIR"] = f"{directory}/data"
    for name, port in PORTS.items():
        environment[f"HMS_CACHE_PROXY_{name}"] = f"127.0.0.1:{port if _free(port) else 0}"
    command = [sys.executable, "-m", "hms_cache_proxy", "serve"]
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
    raise BedError("the proxy did not become ready; its log is above")


def _text(metastore: dict[str, Any], addresses: dict[str, Any]) -> str:
    return TEXT.format(
        version=metastore["version"],
        uri=f"thrift://{addresses['listen']}",
        page=f"http://{addresses['http']}/",
        upstream=metastore["uri"],
        warehouse=metastore["warehouse"],
        spark=importlib.metadata.version("pyspark"),
    )


if __name__ == "__main__":
    sys.exit(main())
