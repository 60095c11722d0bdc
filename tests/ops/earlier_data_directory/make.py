"""Make the stored data directories: `python -m tests.ops.earlier_data_directory.make PYTHON`.

PYTHON is the interpreter of an environment with the version that leaves them behind: a clone of this repository at
COMMIT with its own `make install`. The proxies are of that version, the metastores are the test bed's.

Job: run `serve` in front of Hive 4.2, bring about what a directory is to hold, end the proxy, pack its data directory.
Must not know: what the directory's files mean, but for the mark that it waits for.
Invariants: the warehouse is WAREHOUSE, so a directory names no path of the machine that made it; a directory that names
one all the same is refused. What a packed file says of owners and times is always the same.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tarfile
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from thrift.Thrift import TException

from tests.ops.earlier_data_directory import (
    DATABASE,
    EARLIER,
    IN_FLIGHT,
    LATER,
    PARTITIONS,
    QUIET,
    REPLIED,
    TABLES,
    VERSION,
    stored,
)
from tests.proxy import Proxy
from tests.testbed import objects
from tests.testbed.bed import Bed
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore
from tests.testbed.processes import wait_until

WAREHOUSE = Path("/warehouse")  # made, and removed again
SETTINGS = {
    "metastore.warehouse.dir": f"{WAREHOUSE.as_uri()}/managed",
    "metastore.warehouse.external.dir": f"{WAREHOUSE.as_uri()}/external",
}
LEFT_OUT = ("lock",)  # a file that says nothing; sockets are left out, too
START = "from hms_cache_proxy.cli import main; main()"
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"


def main() -> None:
    """Make both."""
    (python,) = sys.argv[1:]
    os.environ["PYTHONSAFEPATH"] = "1"  # else the proxies would be of the version in the current directory
    WAREHOUSE.mkdir()
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, WAREHOUSE)
        bed = Bed()
        stack.callback(bed.close)
        for make in (fences, not_followed):
            with tempfile.TemporaryDirectory() as directory, filled(bed) as metastore:
                make(bed, metastore, proxy(python, Path(directory), metastore))
                pack(Path(directory) / "data", stored(make.__name__))


@contextmanager
def filled(bed: Bed) -> Iterator[Metastore]:
    """A metastore with the tables."""
    metastore = bed.private_metastore("hive42", settings=SETTINGS)
    with MetastoreClient(*metastore.address) as client:
        objects.create_database(client, DATABASE)
        for name in TABLES:
            keys = (("day", "string"),)
            table = objects.create_table(
                client, objects.table(DATABASE, name, partition_keys=keys, parameters={VERSION: EARLIER})
            )
            objects.add_partitions(client, table, [[str(number)] for number in range(PARTITIONS)])
    yield metastore
    bed.release(metastore)


def proxy(python: str, directory: Path, metastore: Metastore) -> Proxy:
    """One of the earlier version, not started."""
    assert metastore.database is not None
    return Proxy(
        directory, metastore.uri, metastore.database.reader_url, command=(python, "-c", START, "serve"), settings={}
    )


def fences(bed: Bed, metastore: Metastore, proxy: Proxy) -> None:
    """One write has its reply and is not in the cache, as the follower stands still; one is in flight. All dies."""
    proxy.start(prewarmed=True)
    children = proxy.children()
    assert metastore.database is not None and len(children["worker"]) == len(children["follower"]) == 1
    with MetastoreClient(*proxy.address) as client:
        assert version(client, QUIET) == EARLIER
        os.kill(children["follower"][0], signal.SIGSTOP)
        write(client, REPLIED)
    with metastore.database.connect() as connection, connection.cursor() as cursor:
        connection.autocommit = False
        cursor.execute('SELECT * FROM "NOTIFICATION_SEQUENCE" FOR UPDATE')  # a write waits here before its commit
        writer = threading.Thread(target=lost_write, args=(proxy,))
        writer.start()
        database = metastore.database
        wait_until(lambda: database.rows(WAITING)[0][0] > 0, 30)
        assert proxy.process is not None
        for pid in (proxy.process.pid, *children["worker"], *children["follower"]):
            os.kill(pid, signal.SIGKILL)
        proxy.process.wait()
        writer.join()


def not_followed(bed: Bed, metastore: Metastore, proxy: Proxy) -> None:
    """After a stop the proxy is started on a metastore that does not log, and something is written."""
    proxy.start(prewarmed=True)
    proxy.stop()
    silent = bed.private_metastore("hive42-silent", database=metastore.database, settings=SETTINGS)
    proxy.upstream = silent.uri
    proxy.start()
    proxy.wait((proxy.directory / "data" / "not_followed").exists, "marked as not followed")
    with MetastoreClient(*proxy.address) as client:
        write(client, QUIET)
    proxy.stop()
    bed.release(silent)


def version(client: MetastoreClient, name: str) -> str:
    """What the table's parameter says."""
    return str(objects.read_table(client, DATABASE, name).parameters[VERSION])


def write(client: MetastoreClient, name: str) -> None:
    """Raise the table's version."""
    table = objects.read_table(client, DATABASE, name)
    table.parameters[VERSION] = LATER
    client.alter_table(DATABASE, name, table)


def lost_write(proxy: Proxy) -> None:
    """A write whose reply does not come."""
    with suppress(TException, EOFError, OSError), MetastoreClient(*proxy.address) as client:
        write(client, IN_FLIGHT)
        raise AssertionError("the write was to wait")


def pack(directory: Path, archive: Path) -> None:
    """Compress it."""
    for path in directory.rglob("*"):
        if path.is_file() and (named := [word for word in (b"/tmp", b"/root", b"/home") if word in path.read_bytes()]):
            raise AssertionError(f"{path} names {named}")
    with tarfile.open(archive, "w:xz", preset=9) as packed:
        packed.add(directory, "data", filter=plain)


def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Without an owner and times; None for what is left out."""
    if Path(entry.name).name in LEFT_OUT or entry.name.endswith(".sock"):
        return None
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


if __name__ == "__main__":
    main()
