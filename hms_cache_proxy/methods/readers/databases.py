"""Readers of databases and of their lists.

Job: make the result struct of a request from its arguments and a snapshot; base.py says what is declined. Must not
know: sessions, fences.

Order: databases are ordered by name. A list is read in slices, all of one state of the cache. Owner: the worker's loop.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing

from hms_cache_proxy.cache import targets
from hms_cache_proxy.cache.entries import ABSENT
from hms_cache_proxy.cache.streams import encode_strings
from hms_cache_proxy.consistency import names
from hms_cache_proxy.consistency.gate import Reason
from hms_cache_proxy.wire.spec import Struct

from .base import (
    Body,
    Context,
    DatabaseName,
    Decline,
    Unfinished,
    around_strings,
    gathered,
    no_capabilities,
    started,
    success_struct,
)
from .listings import SLICE
from .patterns import Pattern, read_pattern


def get_all_databases(context: Context, args: Struct) -> Body | Unfinished:
    """Names of the default catalog's databases."""
    return started(_names(context, names.DEFAULT_CATALOG, None))


def get_databases(context: Context, args: Struct) -> Body | Unfinished:
    """Names that match a pattern. `@catalog#` means all of a catalog (getAllDatabases of clients since 3.0 sends it).
    Without a pattern it is declined, because releases differ."""
    parts = names.split_database(args.pattern)
    catalog = names.read_name(parts[0]) if parts else None
    if parts is None or args.pattern is None or not catalog:
        raise Decline(Reason.NAME)
    _as_read(parts[0])
    if parts[1] is not args.pattern:
        context.not_hive2()
    if parts[1] is None:
        return started(_names(context, catalog, None))
    pattern = read_pattern(parts[1])
    if pattern is None:
        raise Decline(Reason.PATTERN)
    return started(_names(context, catalog, pattern))


def get_database(context: Context, args: Struct) -> Body:
    """A database by its name, which may begin with a catalog."""
    return _database(context, context.split(args.name))


def get_database_req(context: Context, args: Struct) -> Body:
    """A database by request. A request without a catalog is declined: the text of its refusal is not reproduced."""
    request = args.request
    if request is None or request.catalogName is None:
        raise Decline(Reason.ARGUMENTS)
    no_capabilities(request.processorCapabilities, request.processorIdentifier)
    return _database(context, context.plain(request.catalogName, request.name))


def _names(context: Context, catalog: bytes, pattern: Pattern | None) -> Generator[None, None, Body]:
    context.ordered()
    if not context.snapshot.complete(targets.databases(catalog)):
        raise Decline(Reason.NOT_LOADED)
    parts: list[bytes] = []
    count = 0
    with closing(context.snapshot.walk_databases(catalog, pattern.prefix if pattern else b"")) as walk:
        while rows := walk.rows(SLICE):
            found = [name for name, _ in rows if pattern is None or pattern.matches(name)]
            count += len(found)
            parts.append(encode_strings(found))
            if len(rows) >= SLICE:
                yield
    before, after = around_strings(count)
    return gathered(before, iter(parts), after)


def _database(context: Context, database: DatabaseName) -> Body:
    _as_read(database.raw_catalog)
    entry = context.snapshot.database(database.catalog, database.name)
    if entry is None:
        raise Decline(Reason.NOT_LOADED)
    if entry is ABSENT:
        context.known_absent()
        message = b"database %b.%b" % (database.raw_catalog, database.raw)
        return context.error("NoSuchObjectException", database.raw if context.before_4 else message)
    if entry.remote:
        raise Decline(Reason.REMOTE)
    if not context.snapshot.identity.databases_logged and not context.snapshot.complete(targets.DESCRIPTIONS):
        raise Decline(Reason.UNLOGGED)
    if context.snapshot.identity.databases_rewritten:
        raise Decline(Reason.LOCATION)
    return success_struct(entry.body)


def _as_read(catalog: bytes) -> None:
    """Declines a catalog with blanks: a metastore folds its case here, but does not always trim it."""
    if catalog != catalog.strip(names.BLANKS):
        raise Decline(Reason.NAME)
