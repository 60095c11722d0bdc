"""Which objects live in a directory: databases, tables and partitions whose location is it, or lies below it.

Job: read locations and compare them as paths, whatever way they are written or linked. Must not know: what becomes of a
directory.

A path to a directory may lead through symbolic links. Locations of catalogs, databases and tables are resolved one by
one; a partition is found by the text of its location, and through a link that leads to its table or database. A
partition whose own directory is a link is found by where the link lies, not by where it leads.
Owner: the thread of a call.
"""

from __future__ import annotations

import os.path
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, func, or_, select

from hms_cache_proxy.embedded.call import Call
from hms_cache_proxy.embedded.schema import T
from hms_cache_proxy.embedded.warehouse import is_below

_SPELLINGS = ("file:{}", "file://{}", "file://localhost{}", "{}")
"""How the path of a local directory may begin in a location."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """An object that lives somewhere. `path` is its location's path as it is written."""

    name: str
    path: str
    table_id: int | None = None
    partition_id: int | None = None


Named = Callable[[Tenant], bool]


def tenants(call: Call, directories: Iterable[str], named: Named = lambda tenant: False) -> dict[str, Tenant]:
    """By directory (a path), one object that lives in it, other than those which the call names."""
    entries = {directory: _entry(directory) for directory in directories}
    if not entries:
        return {}
    found: dict[str, Tenant] = {}
    paths = {path: directory for directory, entry in entries.items() for path in (directory, entry)}
    for tenant in _roots(call):
        real = _real(tenant.path)
        for directory, entry in entries.items():
            if is_below(entry, real) or is_below(entry, tenant.path) or is_below(directory, tenant.path):
                if not named(tenant):
                    found.setdefault(directory, tenant)
            elif real != tenant.path and is_below(real, entry):
                paths[tenant.path + entry[len(real) :]] = directory
    for tenant in _partitions(call, paths):
        if not named(tenant):
            found.setdefault(paths[above(tenant.path, paths)], tenant)
    return found


def _entry(path: str) -> str:
    """The directory entry that a path names: what is removed with it. The last step is not followed if it is a link."""
    return os.path.join(_real(os.path.dirname(path)), os.path.basename(path))


def _real(path: str) -> str:
    return os.path.realpath(path)


def _roots(call: Call) -> Iterator[Tenant]:
    """Catalogs, databases and tables."""
    catalogs, databases, tables, sds = T.CTLGS.c, T.DBS.c, T.TBLS.c, T.SDS.c
    for name, location in call.execute(select(catalogs.NAME, catalogs.LOCATION_URI)):
        yield from _tenant(call, f"catalog {name}", location)
    names: dict[int, str] = {}
    columns = (databases.DB_ID, databases.CTLG_NAME, databases.NAME)
    places = (databases.DB_LOCATION_URI, databases.DB_MANAGED_LOCATION_URI)
    for id_, catalog, name, external, managed in call.execute(select(*columns, *places)):
        names[id_] = f"{catalog}.{name}"
        yield from _tenant(call, f"database {names[id_]}", external)
        yield from _tenant(call, f"database {names[id_]}", managed)
    query = select(tables.TBL_ID, tables.DB_ID, tables.TBL_NAME, sds.LOCATION).join(T.SDS, sds.SD_ID == tables.SD_ID)
    for id_, database_id, name, location in call.execute(query):
        yield from _tenant(call, f"table {names.get(database_id)}.{name}", location, id_)


def _tenant(
    call: Call, name: str, location: str | None, table_id: int | None = None, partition_id: int | None = None
) -> Iterator[Tenant]:
    path = call.warehouse.local(location) if location else None
    if path is not None:
        yield Tenant(name, str(path), table_id, partition_id)


def _partitions(call: Call, paths: Iterable[str]) -> Iterator[Tenant]:
    """Those whose location is one of these paths or lies below one."""
    wanted = set(paths)
    parts, tables, databases, sds = T.PARTITIONS.c, T.TBLS.c, T.DBS.c, T.SDS.c
    columns = (parts.PART_ID, parts.PART_NAME, parts.TBL_ID, tables.TBL_NAME, databases.CTLG_NAME, databases.NAME)
    query = (
        select(*columns, sds.LOCATION)
        .join(T.SDS, sds.SD_ID == parts.SD_ID)
        .join(T.TBLS, tables.TBL_ID == parts.TBL_ID)
        .join(T.DBS, databases.DB_ID == tables.DB_ID)
        .where(_begins(os.path.commonpath(wanted)))
    )
    for id_, part, table_id, table, catalog, database, location in call.execute(query):
        for tenant in _tenant(call, f"partition {part} of {catalog}.{database}.{table}", location, table_id, id_):
            if above(tenant.path, wanted):
                yield tenant


def _begins(path: str) -> ColumnElement[bool]:
    """A condition: the location begins with this path, in some spelling."""
    location = T.SDS.c.LOCATION
    beginnings = [spelling.format(path) for spelling in _SPELLINGS]
    return or_(*(func.substr(location, 1, len(each)) == each for each in beginnings))


def above(path: str, wanted: Iterable[str]) -> str:
    """The one of these paths that is `path` or above it; empty if none is."""
    among = wanted if isinstance(wanted, set | dict) else set(wanted)
    while path not in among:
        parent = os.path.dirname(path)
        if parent == path:
            return ""
        path = parent
    return path


def paths_of(call: Call, locations: Sequence[str]) -> list[str]:
    """The paths of those which lie on this machine."""
    return [str(path) for path in map(call.warehouse.local, locations) if path is not None]
