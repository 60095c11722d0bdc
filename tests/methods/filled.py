"""A cache filled once from the database of a metastore that logs nothing, so that no follower would serve it.

Job: everything of one prefix in one commit by the real store and the real writer, and a state page that lets it be
served. It is only right while nobody changes anything. Must not know: readers.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from hms_cache_proxy.cache import targets
from hms_cache_proxy.cache.changes import Changes, PartitionChange, TableWriteIds
from hms_cache_proxy.cache.reader import CacheReader
from hms_cache_proxy.cache.state import MODE_SERVE, Slot, StatePage
from hms_cache_proxy.cache.writer import CacheWriter
from hms_cache_proxy.config import load, paths
from hms_cache_proxy.consistency.fences import FenceStore
from hms_cache_proxy.store.protocol import Snapshot
from hms_cache_proxy.store.sql.store import open_sql_store
from tests.testbed.closing import Closing

HOUR_NS = 3600 * 10**9


class Filled(Closing):
    """The data directory: config, page, fences and reader as a worker has them."""

    def __init__(self, directory: Path, store_url: str, prefix: bytes) -> None:
        directory.mkdir(mode=0o700)
        cli = {
            "data_dir": str(directory),
            "store_url": store_url,
            "upstream": "thrift://127.0.0.1:1",
            "list_order": "name",
            "transactional_reads": "passthrough",
        }
        self.config = load(cli=cli)
        self.page = StatePage(paths.state(self.config), create=True)
        self.fences = FenceStore(paths.fences(self.config), self.page)
        store = open_sql_store(store_url)
        try:
            writer = CacheWriter.open(paths.cache(self.config), self.page, store.identity)
            with store.snapshot() as snapshot:
                writer.commit(everything(snapshot, prefix))
            writer.close()
        finally:
            store.close()
        self.reader = CacheReader(paths.cache(self.config), self.page)
        self.page[Slot.BEGAN_NS] = time.monotonic_ns() + HOUR_NS
        self.page[Slot.SERVE_MODE] = MODE_SERVE

    def close(self) -> None:
        """Close the files and remove them."""
        self.reader.close()
        self.fences.close()
        self.page.close()
        shutil.rmtree(self.config.data_dir)


def everything(snapshot: Snapshot, prefix: bytes) -> Changes:
    """All databases, with the tables and partitions of those whose names begin so."""
    changes = Changes(cursor=snapshot.event_id)
    marks = snapshot.marks()
    assert marks is not None
    changes.marks = {targets.FUNCTIONS: marks.functions, targets.CATALOGS: marks.catalogs}
    names = snapshot.database_names()
    for key, record in snapshot.databases(names).items():
        changes.databases[key] = record
        changes.complete.add(targets.databases(key[0]))
        if not key[1].startswith(prefix):
            continue
        changes.complete.add(targets.tables(*key))
        wanted = [name for name, _, _ in snapshot.table_names(*key)]
        for name, table in snapshot.tables(*key, wanted).items():
            changes.tables[(*key, name)] = table
            if table.transactional:
                valid = snapshot.write_ids([(key[1], name)])[key[1], name].valid
                changes.write_ids[table.table_id] = TableWriteIds((*key, name), valid.text())
            if table.partition_keys:
                rows = list(snapshot.partitions(table))
                changes.partitions.append(PartitionChange(table.table_id, rows, replace_all=True))
    return changes
