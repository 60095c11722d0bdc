"""The calls about schemas of the registry that Hive and the embedded metastore are asked.

Job: lists of (method, arguments). Names of schemas and serdes are the only ones of a metastore: they carry the
database's. Left out is what Hive does wrong: a name of a serde that a version was mapped to, columns on PostgreSQL.
"""

from __future__ import annotations

from typing import Any

from tests.embedded.differential import Step, struct
from tests.embedded.scripts import field


class Registry:
    """Calls about schemas of a database."""

    def __init__(self, db: str) -> None:
        self.db = db

    def name(self, schema: str | None, db: str = "", catalog: str | None = "hive") -> Any:
        return struct("ISchemaName", catName=catalog, dbName=db or self.db, schemaName=schema)

    def version(self, schema: str, version: int) -> Any:
        return struct("SchemaVersionDescriptor", schema=self.name(schema), version=version)

    def schema(self, name: str | None, **fields: Any) -> Any:
        values = {"schemaType": 2, "name": name, "catName": "hive", "dbName": self.db, "compatibility": 2}
        return struct("ISchema", **(values | {"validationLevel": 1, "canEvolve": True} | fields))

    def make(self, name: str | None, **fields: Any) -> Step:
        return "create_ischema", {"schema": self.schema(name, **fields)}

    def alter(self, name: str, to: str, **fields: Any) -> Step:
        request = struct("AlterISchemaRequest", name=self.name(name), newSchema=self.schema(to, **fields))
        return "alter_ischema", {"rqst": request}

    def get(self, schema: str | None, **place: Any) -> Step:
        return "get_ischema", {"name": self.name(schema, **place)}

    def drop(self, schema: str) -> Step:
        return "drop_ischema", {"name": self.name(schema)}

    def add(self, schema: str, version: int, columns: list[Any] | None = None, **fields: Any) -> Step:
        cols = [field("a", "int", "space"), field("B")] if columns is None else columns
        values = {"schema": self.name(schema), "version": version, "createdAt": 10, "cols": cols}
        return "add_schema_version", {"schemaVersion": struct("SchemaVersion", **values, **fields)}

    def get_version(self, schema: str, version: int) -> Step:
        return "get_schema_version", {"schemaVersion": self.version(schema, version)}

    def latest(self, schema: str) -> Step:
        return "get_schema_latest_version", {"schemaName": self.name(schema)}

    def every(self, schema: str) -> Step:
        return "get_schema_all_versions", {"schemaName": self.name(schema)}

    def drop_version(self, schema: str, version: int) -> Step:
        return "drop_schema_version", {"schemaVersion": self.version(schema, version)}

    def state(self, schema: str, version: int, state: int | None) -> Step:
        of = self.version(schema, version)
        return "set_schema_version_state", {
            "rqst": struct("SetSchemaVersionStateRequest", schemaVersion=of, state=state)
        }

    def mapped(self, schema: str, version: int, serde: str) -> Step:
        of = self.version(schema, version)
        request = struct("MapSchemaVersionToSerdeRequest", schemaVersion=of, serdeName=serde)
        return "map_schema_version_to_serde", {"rqst": request}

    def with_columns(self, **fields: Any) -> Step:
        return "get_schemas_by_cols", {"rqst": struct("FindSchemasByColsRqst", **fields)}

    def add_serde(self, name: str, **fields: Any) -> Step:
        return "add_serde", {"serde": struct("SerDeInfo", name=name, **fields)}

    def get_serde(self, name: str) -> Step:
        return "get_serde", {"rqst": struct("GetSerdeRequest", serdeName=name)}


def schemas(db: str) -> list[Step]:
    """Schemas, versions and serdes."""
    r = Registry(db)
    one, two, serde = f"{db}_one", f"{db}_TWO", f"{db}_serde"
    inline = struct("SerDeInfo", name=f"{serde}_inline", serializationLib="lib", parameters={"k": "v"})
    described: dict[str, Any] = {"description": "d", "schemaText": "txt", "fingerprint": "fp", "name": "nm"}
    classes = {"description": "d", "serializerClass": "s", "deserializerClass": "t", "serdeType": 2}
    return [
        r.make(one),
        r.make(one),
        r.make(one.upper()),
        r.make(two, description="d", schemaGroup="g"),
        r.make("x", dbName="nodb"),
        r.make("x", catName="nocat"),
        r.make("x", catName=None),
        r.make("x", dbName=None),
        r.make(None),
        r.make("x", compatibility=None),
        r.make("x", schemaType=None),
        *(r.get(name) for name in (one, two, one.upper(), "nope", None)),
        r.get(one, db="nodb"),
        r.get(one, catalog=None),
        r.alter(one, one, compatibility=1, validationLevel=2, canEvolve=False, description="new", schemaGroup="gg"),
        r.get(one),
        r.alter(one, "renamed"),
        r.alter("nope", one),
        r.alter(two, two, compatibility=None),
        r.get(one),
        r.add(one, 1),
        r.add(one, 1),
        r.add(one, 2, state=1, serDe=inline, **described),
        r.add(one, 0, []),
        r.add("nope", 1),
        *(r.get_version(one, number) for number in (0, 1, 2, 7)),
        r.get_version(one.upper(), 1),
        r.get_version("nope", 1),
        *(ask(name) for ask in (r.latest, r.every) for name in (one, two, "nope")),
        r.add_serde(serde, serializationLib="l", parameters={"a": "b"}, **classes),
        r.add_serde(serde),
        r.add_serde(f"{serde}_bare"),
        *(r.get_serde(name) for name in (serde, serde.upper(), f"{serde}_bare", f"{serde}_nope")),
        r.state(one, 1, 5),
        r.state(one, 1, None),
        r.state("nope", 1, 5),
        r.mapped(one, 1, serde),
        r.mapped(one, 1, f"{serde}_nope"),
        r.mapped(one, 9, serde),
        r.get_version(one, 1),
        r.with_columns(),
        r.with_columns(type="int"),
        r.drop(one),
        r.drop("nope"),
        r.drop(two),
        r.get(two),
        *(r.drop_version(one, number) for number in (1, 1, 2)),
        r.every(one),
        r.drop_version(one, 0),
        r.drop(one),
        r.get(one),
        ("drop_database", {"name": db, "deleteData": True, "cascade": False}),
    ]


def columns(db: str) -> list[Step]:
    """Versions by their columns, which Hive finds where names of tables have no cases."""
    r = Registry(db)
    name, column = f"{db}_one", f"{db}_column"
    cols = [field(column.upper(), "int", f"{db}_space"), field("b")]
    return [
        r.make(name),
        r.add(name, 1, cols),
        r.add(name, 2, cols[:1]),
        r.add(name, 3, cols[1:]),
        r.with_columns(colName=column.upper()),
        r.with_columns(colName=column, type="INT"),
        r.with_columns(colName=column, type="string"),
        r.with_columns(colNamespace=f"{db}_space"),
        r.with_columns(colNamespace=f"{db}_space", colName="b"),
        r.with_columns(colName=f"{db}_nope"),
    ]


REGISTRY_SCRIPTS = {"schemas": schemas}
