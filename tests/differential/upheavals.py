"""Changes of many objects at once, of names, and of what objects say of each other: a part of `Changes`."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from hive_metastore.ttypes import (
    AlterCatalogRequest,
    Catalog,
    CreateCatalogRequest,
    CreationMetadata,
    Database,
    DropCatalogRequest,
    FireEventRequest,
    FireEventRequestData,
    HiveObjectPrivilege,
    HiveObjectRef,
    HiveObjectType,
    InsertEventRequestData,
    Partition,
    PrincipalType,
    PrivilegeBag,
    PrivilegeGrantInfo,
)

from tests.differential import contents, variants
from tests.differential.contents import TableNote
from tests.differential.parts import PartOfChanges
from tests.testbed.client import MetastoreClient


class Upheavals(PartOfChanges):
    """Changes that reach further than one object; a part of `Changes`. `through`: makes what leaves no event."""

    through: MetastoreClient

    @abstractmethod
    def _fresh(self, stem: str) -> str: ...
    @abstractmethod
    def _spelled(self, database: str) -> str: ...
    @abstractmethod
    def _add_table(self, database: str, name: str, kind: str) -> None: ...
    @abstractmethod
    def _alter(self, note: TableNote, table: Any, *, cascade: bool = False) -> None: ...

    # -- partitions --------------------------------------------------------------------------------------------
    def change_add_partitions_at_once(self) -> None:
        note = self._note("partitioned", "wide", "skewed", "bucketed")
        if not note.keys:
            return
        parts = contents.new_partitions(self.world, note, 6)
        if parts:
            self._write(variants.add_partitions(parts))
            note.partitions += [part.values for part in parts]

    def change_append_partition(self) -> None:
        note = self._note("partitioned", "wide", "bucketed")
        values = self.world.values(note)
        name = self.partition_name(note, values)
        self._write(variants.append_partition(self._spelled(note.database), note.name, values, name))
        if values not in note.partitions:
            note.partitions.append(values)

    def change_drop_partitions_at_once(self) -> None:
        note, _ = self._some_partition()
        gone = self.rng.sample(note.partitions, min(3, len(note.partitions)))
        names = [self.partition_name(note, values) for values in gone]
        self._write(variants.drop_partitions(note.database, note.name, names))
        note.partitions = [values for values in note.partitions if values not in gone]

    def change_large(self) -> None:
        """One partition of the large table comes or goes."""
        note = self.world.large
        if note is None:
            return
        values = [
            f"2025-01-{self.rng.randint(1, 9):02d}",
            str(self.rng.randint(0, 20)),
            self.rng.choice(["rare", "r1"]),
        ]
        if values in note.partitions:
            name = self.partition_name(note, values)
            self._write(variants.drop_partition(note.database, note.name, values, name))
            note.partitions.remove(values)
        else:
            self._write(variants.add_partition(contents.partition(self.world, note, values)))
            note.partitions.append(values)

    def change_alter_many_partitions(self) -> None:
        """All of a table, with everything that is in them."""
        note, _ = self._some_partition()
        parts: list[Partition] = self.client.get_partitions(note.database, note.name, -1)
        for part in parts:
            part.sd.cols = contents.columns(self.rng, 2)
            part.parameters = {**(part.parameters or {}), "bulk": str(self.rng.random())}
            part.lastAccessTime = self.rng.choice([0, 77])
        self._write(variants.alter_partitions(note.database, note.name, parts, DO_NOT_UPDATE_STATS="true"))

    def change_exchange_partition(self) -> None:
        """To a table made for it."""
        note, values = self._some_partition()
        if note.kind != "partitioned":
            return
        table = self._table(note)
        table.tableName, table.sd.location = self._fresh("x"), None
        self._write(variants.create_table(table))
        other = TableNote(note.database, table.tableName, note.kind, list(note.keys))
        self.world.tables.append(other)
        given = {key: value for (key, _), value in zip(note.keys, values, strict=True)}
        places = (note.database, note.name), (note.database, other.name)
        self._write(variants.exchange_partition(given, *places))
        note.partitions.remove(values)
        other.partitions.append(values)

    def change_truncate_partitions(self) -> None:
        note, values = self._some_partition()
        names = [self.partition_name(note, values)]
        self._write(variants.truncate_table(note.database, note.name, names), self.through)

    def change_insert(self) -> None:
        """Says that files were added."""
        note, values = self._some_partition()
        data = FireEventRequestData(InsertEventRequestData(filesAdded=["file:/nowhere/f"]))
        event = {"successful": True, "data": data, "dbName": note.database, "tableName": note.name}
        self._write({"fire_listener_event": {"rqst": FireEventRequest(**event, partitionVals=values)}})

    # -- tables ------------------------------------------------------------------------------------------------
    def change_move_table(self) -> None:
        """To another database, under another name or the same."""
        note = self._note("partitioned", "plain", "iceberg")
        table, database = self._table(note), self.rng.choice(self.world.databases)
        new = self.rng.choice([note.name, self._fresh("moved")])
        table.dbName, table.tableName = database, new
        self._alter(note, table)
        self.world.dropped.append((note.database, note.name))
        note.database, note.name = database, new

    def change_swap_names(self) -> None:
        """As atomic rewrites do: the new table takes the old one's name."""
        one, other = self._note("partitioned"), self._note("partitioned")
        if one is other:
            return
        aside = self._fresh("aside")
        for note, database, name in (
            (one, one.database, aside),
            (other, one.database, one.name),
            (one, other.database, other.name),
        ):
            table = self._table(note)
            table.dbName, table.tableName = database, name
            self._alter(note, table)
            note.database, note.name = database, name

    def change_kind_of_table(self) -> None:
        note = self._note("plain", "managed", "partitioned")
        table = self._table(note)
        external = table.tableType == "MANAGED_TABLE"
        table.tableType = "EXTERNAL_TABLE" if external else "MANAGED_TABLE"
        table.parameters["EXTERNAL"] = "TRUE" if external else "FALSE"
        self._alter(note, table)

    def change_everything_of_table(self) -> None:
        note = self._note("plain", "partitioned", "view", "bucketed")
        table = self._table(note)
        table.owner, table.retention = self._fresh("owner"), self.rng.randint(0, 9)
        table.ownerType = self.rng.choice([PrincipalType.USER, PrincipalType.ROLE])
        table.sd.parameters = {"new": self._fresh("v")}
        table.sd.serdeInfo.parameters = {"serde": self._fresh("v"), "empty": ""}
        for key in table.partitionKeys or ():
            key.comment = self._fresh("comment")
        table.parameters = {"comment": self._fresh("c")} | ({"EXTERNAL": "TRUE"} if note.kind != "view" else {})
        self._alter(note, table)

    def change_materialized_view(self) -> None:
        database, name = self.rng.choice(self.world.databases), self._fresh("mv")
        view = contents.table(self.world, database, name, "plain")
        view.tableType, view.parameters = "MATERIALIZED_VIEW", {}
        view.viewOriginalText = view.viewExpandedText = "select 1"
        source = self._note("plain")
        used = {f"{source.database}.{source.name}"}
        view.creationMetadata = CreationMetadata("hive", database, name, used, validTxnList="9:9::")
        view.rewriteEnabled = self.rng.random() < 0.5
        self._write(variants.create_table(view))
        self.world.tables.append(TableNote(database, name, "materialized", []))

    def change_privileges(self) -> None:
        """No event: never answered from objects."""
        if self.world.granted and self.rng.random() < 0.3:
            self._write(variants.change_privileges(self.rng.choice(self.world.granted), revoke=True), self.through)
            return
        note = self._note()
        what = HiveObjectRef(HiveObjectType.TABLE, note.database, note.name)
        info = PrivilegeGrantInfo("SELECT", 1, "me", PrincipalType.USER, self.rng.random() < 0.5)
        user = self.rng.choice(["me", "you"])
        bag = PrivilegeBag([HiveObjectPrivilege(what, user, PrincipalType.USER, info, "SQL")])
        self._write(variants.change_privileges(bag, revoke=False), self.through)
        self.world.granted.append(bag)

    def change_creation_metadata(self) -> None:
        """A materialized view gets other sources."""
        note, source = self._note("materialized", "plain"), self._note("plain")
        used = {f"{source.database}.{source.name}"}
        metadata = CreationMetadata("hive", note.database, note.name, used, validTxnList="9:9::")
        self._write(variants.update_creation_metadata(note.database, note.name, metadata))

    def change_mark(self) -> None:
        """That a partition was loaded: no read shows it."""
        note, values = self._some_partition()
        given = {key: value for (key, _), value in zip(note.keys, values, strict=True)}
        self._write(variants.mark_partition(note.database, note.name, given))

    # -- databases and catalogs --------------------------------------------------------------------------------
    def change_recreate_database(self) -> None:
        """With other contents at once."""
        extra = [name for name in self.world.databases if "_new_" in name]
        if not extra:
            return
        name = self.rng.choice(extra)
        self._write(variants.drop_database(name))
        self.world.tables = [note for note in self.world.tables if note.database != name]
        self._write(variants.create_database(Database(name=name, description=self._fresh("again"))))
        self._add_table(name, self._fresh("n"), "partitioned")

    def change_owner_of_database(self) -> None:
        name = self.rng.choice(self.world.databases)
        database = self.client.get_database(name)
        database.ownerName, database.ownerType = self._fresh("owner"), PrincipalType.USER
        self._write(variants.alter_database(name, database))

    def change_description_of_database(self) -> None:
        """No event."""
        name = self.rng.choice(self.world.databases)
        database = self.through.get_database(name)
        database.description = self._fresh("described")
        self._write(variants.alter_database(name, database), self.through)

    def change_create_catalog(self) -> None:
        """One more with a database and a table of names that the first catalog has too."""
        catalog = f"{self.world.prefix}cat"
        request = CreateCatalogRequest(Catalog(catalog, "", f"file:/nowhere/{catalog}"))
        self._write({"create_catalog": {"catalog": request}}, self.through)
        self.world.catalogs.append(catalog)
        name = self.world.databases[0]
        place = f"file:/nowhere/{catalog}/d"
        self._write(variants.create_database(Database(name=name, catalogName=catalog, locationUri=place)))

    def change_catalog(self) -> None:
        """Its description, or all of it: its databases first, as it must be empty."""
        if not self.world.catalogs:
            return
        name = self.rng.choice(self.world.catalogs)
        if self.rng.random() < 0.5:
            catalog = Catalog(name, self._fresh("described"), f"file:/nowhere/{name}")
            self._write({"alter_catalog": {"rqst": AlterCatalogRequest(name, catalog)}}, self.through)
            return
        self._write(variants.drop_database(f"@{name}#{self.world.databases[0]}"))
        self._write({"drop_catalog": {"catName": DropCatalogRequest(name)}}, self.through)
        self.world.catalogs.remove(name)

    def change_table_of_catalog(self) -> None:
        if not self.world.catalogs:
            return
        catalog, database = self.rng.choice(self.world.catalogs), self.world.databases[0]
        name = self.rng.choice([note.name for note in self.world.tables if note.database == database] or ["x"])
        if self.rng.random() < 0.4:
            self._write(variants.drop_table(f"@{catalog}#{database}", name))
            return
        table = contents.table(self.world, database, name, "plain")
        table.catName = catalog
        self._write(variants.create_table(table))
