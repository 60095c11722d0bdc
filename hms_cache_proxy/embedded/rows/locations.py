"""Finds the objects in a directory: databases, tables and partitions whose location is the directory, or is below it.

Job: read locations and compare them as paths, however they are written or linked. Must not know: what happens to a
directory.

A path to a directory may contain symbolic links. Locations of catalogs, databases and tables are resolved one by one. A
partition is found by the text of its location, and through a link in the path of its table or database. If a
partition's directory itself is a link, the partition is found at the link, not at its target.
Owner: the thread of a call.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, func, or_, select

from hms_cache_proxy.embedded.call import Call
from hms_cache_proxy.embedded.rows.common import rows_of
from hms_cache_proxy.embedded.schema import T
from hms_cache_proxy.embedded.warehouse import is_below


@dataclass(frozen=True, slots=True)
class Tenant:
    """An object with a location. `path` is the path in the location, as written."""

    name: str
    path: str
    table_id: int | None = None
    partition_id: int | None = None


_ODD = re.compile(r"//|/\.|/$")
"""What Hadoop's Path removes from a path."""

TenantTest = Callable[[Tenant], bool]


def tenants(call: Call, directories: Iterable[str], named: TenantTest = lambda tenant: False) -> dict[str, Tenant]:
    """For each directory (a path), one object in it, except those that the call names.

    Reads each location in the database, and makes a system call for each table.
    """
    links = _Links()
    entries = {directory: links.entry(directory) for directory in directories}
    if not entries:
        return {}
    found: dict[str, Tenant] = {}
    paths: dict[str, set[str]] = {}
    for directory, entry in entries.items():
        for path in (directory, entry):
            paths.setdefault(path, set()).add(directory)
    for tenant in _roots(call):
        real = links.real(tenant.path)
        if not named(tenant):
            for inside in _all_above(tenant.path, paths) | _all_above(real, paths):
                found.setdefault(inside, tenant)
        if real != tenant.path:
            for directory, entry in entries.items():
                if is_below(real, entry):
                    paths.setdefault(tenant.path + entry[len(real) :], set()).add(directory)
    for tenant in _partitions(call, paths):
        if not named(tenant):
            for inside in _all_above(tenant.path, paths):
                found.setdefault(inside, tenant)
    return found


class _Links:
    """Paths without symbolic links; each directory is checked once."""

    def __init__(self) -> None:
        self._parents: dict[str, str] = {}

    def entry(self, path: str) -> str:
        """The directory entry that a path names, which is what a removal removes. A link at its end is not followed."""
        parent, name = os.path.split(path)
        real = self._parents.get(parent)
        if real is None:
            real = self._parents[parent] = os.path.realpath(parent)
        return os.path.join(real, name)

    def real(self, path: str) -> str:
        """The target of a path."""
        entry = self.entry(path)
        return os.path.realpath(entry) if os.path.islink(entry) else entry


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
    path = local_path(call, location) if location else None
    if path is not None:
        yield Tenant(name, path, table_id, partition_id)


def _partitions(call: Call, paths: Collection[str]) -> Iterator[Tenant]:
    """Partitions whose location is one of these paths, or below one."""
    sds = T.SDS.c
    query = select(sds.SD_ID, sds.LOCATION).where(_contains(call, os.path.commonpath(paths)))
    found = {}
    for sd_id, location in call.execute(query):
        path = local_path(call, location)
        if path is not None and above(path, paths):
            found[sd_id] = path
    parts, tables, databases = T.PARTITIONS.c, T.TBLS.c, T.DBS.c
    columns = (parts.PART_ID, parts.PART_NAME, parts.TBL_ID)
    names: dict[int, str] = {}
    for sd_id, id_, part, table_id in rows_of(call, parts.SD_ID, found, *columns):
        if table_id not in names:
            place = select(databases.CTLG_NAME, databases.NAME, tables.TBL_NAME).where(tables.TBL_ID == table_id)
            names[table_id] = ".".join(call.execute(place.join(T.DBS, databases.DB_ID == tables.DB_ID)).one())
        yield Tenant(f"partition {part} of {names[table_id]}", found[sd_id], table_id, id_)


def _contains(call: Call, path: str) -> ColumnElement[bool]:
    """A condition: the location contains this path, with any scheme and authority, or is written in a way that may hide
    it (some calls store locations as sent)."""
    place = func.instr if call.connection.dialect.name == "sqlite" else func.strpos
    return or_(*(place(T.SDS.c.LOCATION, part) > 0 for part in (path, "/.", "//")))


def above(path: str, wanted: Collection[str]) -> str:
    """The path among these that is `path` or above it; empty if there is none."""
    while path not in wanted:
        parent = os.path.dirname(path)
        if parent == path:
            return ""
        path = parent
    return path


def _all_above(path: str, wanted: Mapping[str, set[str]]) -> set[str]:
    """The values for `path` and for all paths above it, so that nested directories are all found."""
    found: set[str] = set()
    while path := above(path, wanted):
        found |= wanted[path]
        parent = os.path.dirname(path)
        if parent == path:
            break
        path = parent
    return found


def local_path(call: Call, location: str) -> str | None:
    """The path of a location on this machine; None if it is elsewhere."""
    if location.startswith("file:/") and not _ODD.search(location):  # the form of most stored locations
        return location[5:]
    path = call.warehouse.local(location)
    return None if path is None else str(path)


def paths_of(call: Call, locations: Sequence[str]) -> list[str]:
    """The paths of the locations on this machine."""
    return [path for path in (local_path(call, location) for location in locations) if path is not None]
