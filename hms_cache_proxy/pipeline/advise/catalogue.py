"""Which tables exist: the access log does not name those that nobody reads.

Job: get the names from a file (one `database.table` or `catalog.database.table` per line), or from a metastore or a
proxy. Must not know: the log. Owner: the driver's process.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hms_cache_proxy.config import Address
from hms_cache_proxy.errors import AdviceError
from hms_cache_proxy.pipeline.advise.patterns import KnownTable
from hms_cache_proxy.store.protocol import DEFAULT_CATALOG
from hms_cache_proxy.upstream.service import ServiceConnection, UnknownMethod

TIMEOUT_S = 60.0


def from_file(path: str) -> frozenset[KnownTable]:
    """The tables of a list; AdviceError names the first line that is not a table."""
    try:
        lines = Path(path).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise AdviceError(f"cannot read {path}: {error}") from error
    found = set()
    for number, line in enumerate(lines, 1):
        text = line.strip().lower()
        if not text or text.startswith("#"):
            continue
        parts = text.split(".")
        if len(parts) not in (2, 3) or not all(parts):
            raise AdviceError(f"{path}:{number}: {line.strip()!r} is not database.table or catalog.database.table")
        found.add(KnownTable(parts[-2], parts[-1]))
    return frozenset(found)


def from_metastore(address: Address) -> frozenset[KnownTable]:
    """The tables of all catalogs of a metastore. Raises UpstreamError."""
    with ServiceConnection(address.host, address.port, timeout_s=TIMEOUT_S) as metastore:
        return frozenset(_all(metastore))


def _all(metastore: ServiceConnection) -> Iterator[KnownTable]:
    for catalog in _catalogs(metastore):
        mark = b"" if catalog == DEFAULT_CATALOG else b"@%b#" % catalog
        databases = (
            metastore.call("get_databases", pattern=mark + b"*") if mark else metastore.call("get_all_databases")
        )
        for database in databases:
            for table in metastore.call("get_all_tables", db_name=mark + database):
                yield KnownTable(database.decode("utf-8", "replace"), table.decode("utf-8", "replace"))


def _catalogs(metastore: ServiceConnection) -> list[bytes]:
    try:
        names: list[bytes] = metastore.call("get_catalogs").names
    except UnknownMethod:  # Hive 2.3
        return [DEFAULT_CATALOG]
    return names
