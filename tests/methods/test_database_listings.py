"""Lists of many databases: they are read in slices, each a turn of the worker's loop."""

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


def all_of(shelf: Shelf) -> bytes | Slices | Unfinished:
    with shelf.reader.snapshot() as snapshot:
        context = Context(snapshot, "get_all_databases", True, Proof("passthrough", exact=False))
        return databases.get_all_databases(context, spec.args("get_all_databases")())


def test_a_list_is_read_in_slices(shelf: Shelf) -> None:
    names = [b"d_%05d" % number for number in range(2 * SLICE + 50)]
    made = {(b"hive", name): database(name) for name in names}
    shelf.writer.commit(Changes(10, databases=dict(made), complete={targets.databases(b"hive")}))
    result, steps = ended(all_of(shelf))
    assert steps == 2, "each reads so many names, at most"
    assert spec.decode(spec.result("get_databases"), result)[0].success == names
    for pattern, turns in ((b"*", 2), (b"*7*", 2), (b"d_0002*", 0), (b"d_00003", 0), (b"x*", 0)):
        result, steps = ended(begun(shelf, pattern))
        assert steps == turns, "of those that begin as the pattern does"
        wanted = [name for name in names if pattern.strip(b"*") in name]
        assert spec.decode(spec.result("get_databases"), result)[0].success == wanted
    few = [(b"hive", name) for name in names[SLICE - 1 :]]
    shelf.writer.commit(Changes(11, databases=dict.fromkeys(few)))
    assert ended(begun(shelf, b"*7*"))[1] == 0, "few take one turn"
