"""The schema registry: schemas, their versions, and serdes by name.

Job: carry out the calls, with their rows: I_SCHEMA, SCHEMA_VERSION, SERDES. They write no events. Source: HMSHandler
and ObjectStore of 4.2, compared with running ones. Two bugs of Hive are not reproduced: a serde to which a schema
version is mapped can still be found by its name (Hive copies it, and then finds two), and versions are found by their
columns (Hive's statement fails on PostgreSQL). Owner: the thread of a call.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import delete, insert, select, update

from hms_cache_proxy.embedded.call import Call, reads, writes
from hms_cache_proxy.embedded.database import new_ids
from hms_cache_proxy.embedded.failures import already_exists, internal, meta, no_such_object
from hms_cache_proxy.embedded.names import folded
from hms_cache_proxy.embedded.rows import databases, descriptors
from hms_cache_proxy.embedded.schema import T
from hms_cache_proxy.embedded.values import new
from hms_cache_proxy.wire.spec import Struct

_SCHEMAS, _VERSIONS = T.I_SCHEMA.c, T.SCHEMA_VERSION.c


def _told(name: Struct) -> str:
    """The name as Java prints it in messages."""
    words = ["null" if word is None else word for word in (name.catName, name.dbName, name.schemaName)]
    return "ISchemaName(catName:{}, dbName:{}, schemaName:{})".format(*words)


def _told_version(of: Struct) -> str:
    return f"SchemaVersionDescriptor(schema:{_told(of.schema)}, version:{of.version})"


def _number(value: int | None) -> int:
    if value is None:
        raise internal("an enum is null")
    return value


_PLACES = (T.DBS.c.NAME.label("DB"), T.DBS.c.CTLG_NAME.label("CAT"))
_IN_DATABASE = T.DBS.c.DB_ID == _SCHEMAS.DB_ID


def _find(call: Call, name: Struct) -> Any | None:
    """The row of a schema."""
    place = folded(name.catName), folded(name.dbName)
    query = select(T.I_SCHEMA, *_PLACES).join(T.DBS, _IN_DATABASE).where(_SCHEMAS.NAME == folded(name.schemaName))
    return call.execute(query.where(T.DBS.c.CTLG_NAME == place[0], T.DBS.c.NAME == place[1])).first()


def create_ischema(call: Call, args: Struct) -> None:
    """Create a schema in a database; its name is unique across all databases."""
    given = args.schema
    place = folded(given.catName), folded(given.dbName)
    database = databases.find_database(call, *place)
    if database is None:
        raise no_such_object(f"There is no database {'.'.join(place)}")
    name = folded(given.name)
    row = {
        "SCHEMA_TYPE": _number(given.schemaType),
        "NAME": name,
        "DB_ID": database[0],
        **_changeable(given),
        "SCHEMA_GROUP": given.schemaGroup,
        "DESCRIPTION": given.description,
    }
    known = call.execute(select(_SCHEMAS.DB_ID).where(_SCHEMAS.NAME == name)).scalar()
    if known == database[0]:
        raise already_exists(f"Schema with name {given.dbName}.{given.name} already exists")
    if known is not None:
        raise meta(f"there is a schema {name} in another database")
    call.execute(insert(T.I_SCHEMA), {"SCHEMA_ID": new_ids(call.connection, "MISchema"), **row})


def _changeable(schema: Struct) -> dict[str, Any]:
    return {
        "COMPATIBILITY": _number(schema.compatibility),
        "VALIDATION_LEVEL": _number(schema.validationLevel),
        "CAN_EVOLVE": bool(schema.canEvolve),
    }


def alter_ischema(call: Call, args: Struct) -> None:
    """Change everything except name and type; an absent group or description stays."""
    request = args.rqst
    row = _find(call, request.name)
    if row is None:
        raise no_such_object(f"Could not find schema {_told(request.name)}")
    given = request.newSchema
    values = _changeable(given)
    if given.schemaGroup is not None:
        values["SCHEMA_GROUP"] = given.schemaGroup
    if given.description is not None:
        values["DESCRIPTION"] = given.description
    call.execute(update(T.I_SCHEMA).where(_SCHEMAS.SCHEMA_ID == row.SCHEMA_ID).values(**values))


def get_ischema(call: Call, args: Struct) -> Struct:
    """A schema by name."""
    row = _find(call, args.name)
    if row is None:
        raise no_such_object(f"No schema named {_told(args.name)} exists")
    return new(
        "ISchema",
        schemaType=row.SCHEMA_TYPE,
        name=row.NAME,
        catName=row.CAT,
        dbName=row.DB,
        compatibility=row.COMPATIBILITY,
        validationLevel=row.VALIDATION_LEVEL,
        canEvolve=bool(row.CAN_EVOLVE),
        schemaGroup=row.SCHEMA_GROUP,
        description=row.DESCRIPTION,
    )


def drop_ischema(call: Call, args: Struct) -> None:
    """Drop a schema without versions."""
    row = _find(call, args.name)
    if row is None:
        raise no_such_object(f"Schema {_told(args.name)} does not exist")
    if _versions(call, _VERSIONS.SCHEMA_ID == row.SCHEMA_ID):
        raise internal("the schema has a version")  # Hive intends to say so, and fails in a cast
    call.execute(delete(T.I_SCHEMA).where(_SCHEMAS.SCHEMA_ID == row.SCHEMA_ID))


def _versions(call: Call, *where: Any) -> list[Any]:
    """Rows of versions that meet some conditions (Any: of Core), the latest first, with their schema's names."""
    query = select(T.SCHEMA_VERSION, _SCHEMAS.NAME.label("SCHEMA"), *_PLACES)
    query = query.join(T.I_SCHEMA, _SCHEMAS.SCHEMA_ID == _VERSIONS.SCHEMA_ID).join(T.DBS, _IN_DATABASE)
    return call.rows(query.where(*where).order_by(_VERSIONS.VERSION.desc(), _VERSIONS.SCHEMA_VERSION_ID))


def _of_schema(call: Call, name: Struct, *where: Any) -> list[Any]:
    schema = _find(call, name)
    return [] if schema is None else _versions(call, _VERSIONS.SCHEMA_ID == schema.SCHEMA_ID, *where)


def _version(call: Call, of: Struct) -> Any | None:
    return next(iter(_of_schema(call, of.schema, _VERSIONS.VERSION == of.version)), None)


def _structs(call: Call, rows: list[Any]) -> list[Struct]:
    columns = descriptors.read_columns(call, [row.CD_ID for row in rows])
    serdes = descriptors.read_serdes(call, [row.SERDE_ID for row in rows if row.SERDE_ID is not None], whole=True)
    return [
        new(
            "SchemaVersion",
            schema=_name(row),
            version=row.VERSION,
            createdAt=row.CREATED_AT,
            cols=columns.get(row.CD_ID, []),
            state=row.STATE or None,
            description=row.DESCRIPTION,
            schemaText=row.SCHEMA_TEXT,
            fingerprint=row.FINGERPRINT,
            name=row.SCHEMA_VERSION_NAME,
            serDe=serdes.get(row.SERDE_ID),
        )
        for row in rows
    ]


def _name(row: Any) -> Struct:
    return new("ISchemaName", catName=row.CAT, dbName=row.DB, schemaName=row.SCHEMA)


def add_schema_version(call: Call, args: Struct) -> None:
    """Add a version, with separate columns, and a separate serde if one is given."""
    given = args.schemaVersion
    schema = _find(call, given.schema)
    if schema is None:
        raise no_such_object(f"No schema named {_told(given.schema)}")
    if _version(call, given) is not None:
        raise already_exists(f"Schema name {_told(given.schema)} version {given.version} already exists")
    row = {
        "SCHEMA_VERSION_ID": new_ids(call.connection, "MSchemaVersion"),
        "SCHEMA_ID": schema.SCHEMA_ID,
        "VERSION": given.version,
        "CREATED_AT": given.createdAt,
        "CD_ID": descriptors.insert_columns(call, given.cols),
        "STATE": given.state or 0,
        "DESCRIPTION": given.description,
        "SCHEMA_TEXT": given.schemaText,
        "FINGERPRINT": given.fingerprint,
        "SCHEMA_VERSION_NAME": given.name,
        "SERDE_ID": None if given.serDe is None else descriptors.insert_serde(call, given.serDe),
    }
    call.execute(insert(T.SCHEMA_VERSION), row)


def get_schema_version(call: Call, args: Struct) -> Struct:
    """A version by number."""
    row = _version(call, args.schemaVersion)
    if row is None:
        raise no_such_object(f"No schema version {_told_version(args.schemaVersion)}exists")
    return _structs(call, [row])[0]


def get_schema_latest_version(call: Call, args: Struct) -> Struct:
    """The version with the highest number."""
    return get_schema_all_versions(call, args)[0]


def get_schema_all_versions(call: Call, args: Struct) -> list[Struct]:
    """All versions, the latest first. NoSuchObjectException if there are none."""
    rows = _of_schema(call, args.schemaName)
    if not rows:
        raise no_such_object(f"No versions of schema {_told(args.schemaName)}exist")
    return _structs(call, rows)


def _known_version(call: Call, of: Struct) -> Any:
    row = _version(call, of)
    if row is None:
        raise no_such_object(f"No schema version {_told_version(of)}")
    return row


def drop_schema_version(call: Call, args: Struct) -> None:
    """Drop a version with its columns; its serde stays."""
    row = _known_version(call, args.schemaVersion)
    call.execute(delete(T.SCHEMA_VERSION).where(_VERSIONS.SCHEMA_VERSION_ID == row.SCHEMA_VERSION_ID))
    if row.CD_ID is not None:
        descriptors.drop_unused_columns(call, [row.CD_ID])


def _change(call: Call, row: Any, **values: Any) -> None:
    mine = _VERSIONS.SCHEMA_VERSION_ID == row.SCHEMA_VERSION_ID
    call.execute(update(T.SCHEMA_VERSION).where(mine).values(**values))


def set_schema_version_state(call: Call, args: Struct) -> None:
    """Set the state of a version; any change is allowed. Without a state, nothing changes."""
    row = _known_version(call, args.rqst.schemaVersion)
    if args.rqst.state is not None:
        _change(call, row, STATE=args.rqst.state)


def map_schema_version_to_serde(call: Call, args: Struct) -> None:
    """Set the serde of a version, by the serde's name."""
    row = _known_version(call, args.rqst.schemaVersion)
    _change(call, row, SERDE_ID=_known_serde(call, args.rqst.serdeName))


def get_schemas_by_cols(call: Call, args: Struct) -> Struct:
    """Versions that have a column with the given name or comment, and type."""
    request = args.rqst
    if request.colName is None and request.colNamespace is None:
        raise meta("You must specify column name or column namespace, else your query may be too large")
    columns = T.COLUMNS_V2.c
    query = select(columns.CD_ID)
    if request.colName is not None:
        query = query.where(columns.COLUMN_NAME == folded(request.colName))
    if request.colNamespace is not None:
        query = query.where(columns.COMMENT == request.colNamespace)
    if request.type is not None:
        query = query.where(columns.TYPE_NAME == folded(request.type))
    found = [
        new("SchemaVersionDescriptor", schema=_name(row), version=row.VERSION)
        for row in _versions(call, _VERSIONS.CD_ID.in_(query))
    ]
    return new("FindSchemasByColsResp", schemaVersions=found)


def _serdes(call: Call, name: str | None) -> list[int]:
    columns = T.SERDES.c
    return [row[0] for row in call.execute(select(columns.SERDE_ID).where(columns.NAME.is_not_distinct_from(name)))]


def _known_serde(call: Call, name: str | None) -> int:
    """The serde's id. NoSuchObjectException; MetaException if tables have serdes of this name too."""
    ids = _serdes(call, name)
    if not ids:
        raise no_such_object(f"No SerDe named {'null' if name is None else name}")
    if len(ids) > 1:
        raise meta(f"there is more than one SerDe named {name}")
    return ids[0]


def add_serde(call: Call, args: Struct) -> None:
    """Add a serde that belongs to no table. Names are case-sensitive."""
    if _serdes(call, args.serde.name):
        raise already_exists(f"Serde with name {args.serde.name} already exists")
    descriptors.insert_serde(call, args.serde)


def get_serde(call: Call, args: Struct) -> Struct:
    """A serde by name."""
    serde_id = _known_serde(call, args.rqst.serdeName)
    return descriptors.read_serdes(call, [serde_id], whole=True)[serde_id]


METHODS = {
    **reads(
        get_ischema=get_ischema,
        get_schema_version=get_schema_version,
        get_schema_latest_version=get_schema_latest_version,
        get_schema_all_versions=get_schema_all_versions,
        get_schemas_by_cols=get_schemas_by_cols,
        get_serde=get_serde,
    ),
    **writes(
        create_ischema=create_ischema,
        alter_ischema=alter_ischema,
        drop_ischema=drop_ischema,
        add_schema_version=add_schema_version,
        drop_schema_version=drop_schema_version,
        set_schema_version_state=set_schema_version_state,
        map_schema_version_to_serde=map_schema_version_to_serde,
        add_serde=add_serde,
    ),
}
