"""Catalogs.

Job: carry out the calls; rows are rows/databases.py's. Source: HMSHandler of 4.2. Owner: the thread of a call.
"""

from __future__ import annotations

from hms_cache_proxy.embedded import directories, events, names
from hms_cache_proxy.embedded.call import Call, reads, writes
from hms_cache_proxy.embedded.failures import already_exists, internal, invalid_operation, meta, no_such_object
from hms_cache_proxy.embedded.handlers.databases import new_default_database
from hms_cache_proxy.embedded.rows import databases as rows
from hms_cache_proxy.embedded.rows import tables as table_rows
from hms_cache_proxy.embedded.values import new
from hms_cache_proxy.wire.spec import Struct


def get_catalogs(call: Call, _args: Struct) -> Struct:
    """The names of all catalogs."""
    return new("GetCatalogsResponse", names=[catalog.name for _, catalog in rows.find_catalogs(call)])


def get_catalog(call: Call, args: Struct) -> Struct:
    """One catalog."""
    if args.catName.name is None:
        raise internal("the catalog has no name")
    return new("GetCatalogResponse", catalog=_found(call, args.catName.name)[1])


def create_catalog(call: Call, args: Struct) -> None:
    """Create a catalog and its database `default`. Only the latter is logged."""
    catalog = args.catalog.catalog
    if not names.valid(catalog.name):
        raise meta(f"{catalog.name} is not a valid catalog name")
    catalog.name = names.fold(catalog.name)
    if catalog.locationUri is None:
        raise meta("You must specify a path for the catalog")
    if rows.find_catalogs(call, catalog.name):
        raise already_exists(f"Catalog {catalog.name} already exists")
    directories.make(call, catalog.locationUri)
    catalog.createTime = call.now
    rows.insert_catalog(call, catalog)
    database = new_default_database(call, catalog)
    rows.insert_database(call, database)
    events.create_database(call, database)


def alter_catalog(call: Call, args: Struct) -> None:
    """Change description, location and parameters; no event."""
    id_, _ = _found(call, args.rqst.name)
    if args.rqst.newCat is None:
        raise meta("Invalid arguments")
    if args.rqst.newCat.name != args.rqst.name:
        raise invalid_operation("You cannot change a catalog's name")
    rows.update_catalog(call, id_, args.rqst.newCat)


def drop_catalog(call: Call, args: Struct) -> None:
    """Drop a catalog that contains only an empty database `default`."""
    name = names.fold(args.catName.name)
    if name == names.DEFAULT_CATALOG:
        raise meta("Can not drop hive catalog")
    found = rows.find_catalogs(call, name)
    if not found:
        if args.catName.ifExists is not False:
            return
        raise no_such_object(f"No catalog {name}")
    databases = rows.find_databases(call, name)
    if any(database.name != "default" for _, database in databases):
        raise invalid_operation(f"There are non-default databases in the catalog {name} so it cannot be dropped.")
    for id_, database in databases:
        if table_rows.table_names(call, id_):
            raise invalid_operation(f"Database {database.name} is not empty. One or more tables exist.")
        events.drop_database(call, database)
        rows.delete_database(call, id_)
        directories.remove(call, database.locationUri, f"database {name}.{database.name}", purge=True)
    rows.delete_catalog(call, found[0][0])
    directories.remove(call, found[0][1].locationUri, f"catalog {name}")


def _found(call: Call, name: str) -> tuple[int, Struct]:
    found = rows.find_catalogs(call, names.fold(name))
    if not found:
        raise no_such_object(f"No catalog {names.fold(name)}")
    return found[0]


METHODS = {
    **reads(get_catalogs=get_catalogs, get_catalog=get_catalog),
    **writes(create_catalog=create_catalog, alter_catalog=alter_catalog, drop_catalog=drop_catalog),
}
