"""A cache with contents of a benchmark's own, without a metastore."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Final

from hms_cache_proxy.cache.changes import Changes, PartitionChunk
from hms_cache_proxy.cache.reader import CacheReader
from hms_cache_proxy.cache.state import StatePage
from hms_cache_proxy.cache.writer import CacheWriter
from hms_cache_proxy.store.protocol import PartitionRecord, StoreIdentity

CHUNK: Final = 20_000
"""Partitions of one commit."""


@contextmanager
def filled(fill: Callable[[CacheWriter], None]) -> Iterator[CacheReader]:
    """The cache as a worker reads it, until the block ends."""
    with tempfile.TemporaryDirectory() as directory, StatePage(Path(directory) / "state", create=True) as page:
        place = Path(directory) / "cache"
        with closing(CacheWriter.open(place, page, StoreIdentity("", "4.2.0", "4.2", True, True))) as writer:
            fill(writer)
            with closing(CacheReader(place, page)) as reader:
                yield reader


def load(writer: CacheWriter, table_id: int, records: Iterator[PartitionRecord], cursor: int) -> None:
    """All partitions of a table, in chunks."""
    chunk, first = list(islice(records, CHUNK)), True
    while chunk:
        following = list(islice(records, CHUNK))
        change = PartitionChunk(table_id, chunk, first=first, last=not following)
        writer.commit(Changes(cursor=cursor, chunks=[change]))
        chunk, first = following, False
