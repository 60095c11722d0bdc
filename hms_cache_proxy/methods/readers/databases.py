"""Readers of databases and of their lists.

Job: make the result struct of a request from its arguments and a snapshot; base.py says what is declined. Must not
know: sessions, fences.

Order: databases are ordered by name. A pattern is matched in slices. Owner: the worker's loop.
"""

from __future__ import annotations

from collections.abc import Generator

from hms_cache_proxy.cache import targets
from hms_cache_proxy.cache.entries import ABSENT
from hms_cache_proxy.consistency import names
from hms_cache_proxy.consistency.gate import Reason
from hms_cache_proxy.wire.spec import Struct

from .base import (
    Body,
    Context,
    DatabaseName,
    Decline,
    Unfinished,
    no_capabilities,
    started,
    success_strings,
    success_struct,
)
from .listings import SLICE
from .patterns import Pattern, read_pattern


def get_all_databases(context: Context, args: Struct) -> Body:
    """Names of the default catalog's databases."""
    return success_strings(_databases(context, names.DEFAULT_CATALOG))


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
        return success_strings(_databases(context, catalog))
    pattern = read_pattern(parts[1])
    if pattern is None:
        raise Decline(Reason.PATTERN)
    return started(_matching(_databases(context, catalog), pattern))


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


def _databases(context: Context, catalog: bytes) -> list[bytes]:
    context.ordered()
    found = context.snapshot.database_list(catalog)
    if found is None:
        raise Decline(Reason.NOT_LOADED)
    return found


def _matching(every: list[bytes], pattern: Pattern) -> Generator[None, None, Body]:
    found: list[bytes] = []
    for at in range(0, len(every), SLICE):
        if at:
            yield
        found += filter(pattern.matches, every[at : at + SLICE])
    return success_strings(found)


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
