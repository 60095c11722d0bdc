"""A cache in a temporary directory: page, writer, reader."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from hms_cache_proxy.cache import targets
from hms_cache_proxy.cache.changes import Changes, PartitionChange
from hms_cache_proxy.cache.reader import CacheReader
from hms_cache_proxy.cache.state import StatePage
from hms_cache_proxy.cache.writer import CacheWriter
from hms_cache_proxy.store.protocol import StoreIdentity
from tests.cache.records import DATABASE, IDENTITY, TABLE, TABLE_ID, Part, database, table


@dataclass
class Shelf:
    """One data directory."""

    root: Path
    page: StatePage
    writer: CacheWriter
    reader: CacheReader

    @property
    def path(self) -> Path:
        return self.root / "cache"

    def reopen(self, identity: StoreIdentity = IDENTITY, *, clean: bool = True, scope: str = "") -> CacheWriter:
        """End the writer (without its clean close: as kill -9 would) and open the cache again."""
        self.reader.close()
        if clean:
            self.writer.close()
        else:
            self.writer._environment.detach(writer=True)
        self.writer = CacheWriter.open(self.path, self.page, identity, scope=scope)
        return self.writer

    def fill(self, parts: list[Part], cursor: int = 10) -> int:
        """The database, the table and these partitions, with complete lists."""
        change = PartitionChange(TABLE_ID, [part.record() for part in parts], replace_all=True)
        return self.writer.commit(
            Changes(
                cursor=cursor,
                databases={DATABASE: database()},
                tables={TABLE: table()},
                partitions=[change],
                complete={targets.databases(b"hive"), targets.tables(*DATABASE)},
            )
        )


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    with StatePage(tmp_path / "state", create=True) as page:
        writer = CacheWriter.open(tmp_path / "cache", page, IDENTITY)
        made = Shelf(tmp_path, page, writer, CacheReader(tmp_path / "cache", page))
        yield made
        made.reader.close()
        made.writer.close()
