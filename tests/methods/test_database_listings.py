"""Lists of many databases: a pattern is matched in slices, each a turn of the worker's loop."""

from __future__ import annotations

from hms_cache_proxy.cache import targets
from hms_cache_proxy.cache.changes import Changes
from hms_cache_proxy.methods.proof import Proof
from hms_cache_proxy.methods.readers import databases
from hms_cache_proxy.methods.readers.base import Context, Slices, Unfinished
from hms_cache_proxy.methods.readers.listings import SLICE
from hms_cache_proxy.wire import spec
from tests.cache.conftest import Shelf, shelf
from tests.cache.records import database
from tests.methods.test_table_listings import ended

__all__ = ["shelf"]


def begun(shelf: Shelf, pattern: bytes) -> bytes | Slices | Unfinished:
    with shelf.reader.snapshot() as snapshot:
        context = Context(snapshot, "get_databases", True, Proof("passthrough", exact=False))
        return databases.get_databases(context, spec.args("get_databases")(pattern=pattern))


def test_a_pattern_is_matched_in_slices(shelf: Shelf) -> None:
    names = [b"d_%05d" % number for number in range(2 * SLICE + 50)]
    made = {(b"hive", name): database(name) for name in names}
    shelf.writer.commit(Changes(10, databases=dict(made), complete={targets.databases(b"hive")}))
    for pattern in (b"*", b"*7*", b"d_00003", b"x*"):
        result, steps = ended(begun(shelf, pattern))
        assert steps == 2, "each looks at so many names, at most"
        parts = pattern.strip(b"*")
        wanted = [name for name in names if parts in name]
        assert spec.decode(spec.result("get_databases"), result)[0].success == wanted
    few = [(b"hive", name) for name in names[SLICE:]]
    shelf.writer.commit(Changes(11, databases=dict.fromkeys(few)))
    assert ended(begun(shelf, b"*7*"))[1] == 0, "few take one turn"
