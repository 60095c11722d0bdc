"""Changes of many objects at once, of names, and of what objects say of each other: a part of `Changes`."""

from __future__ import annotations

from abc import abstractmethod

from hive_metastore.ttypes import (
    AddForeignKeyRequest,
    AddPartitionsRequest,
    AlterPartitionsRequest,
    Catalog,
    CreateCatalogRequest,
    CreationMetadata,
    Database,
    DropPartitionsRequest,
    EnvironmentContext,
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
    RequestPartsSpec,
    SQLForeignKey,
    SQLPrimaryKey,
    TruncateTableRequest,
)

from tests.differential import contents
from tests.differential.contents import TableNote
from tests.differential.parts import PartOfChanges
from tests.testbed.client import MetastoreClient


class Upheavals(PartOfChanges):
    """Changes that reach further than one object; a part of `Changes`. `through`: makes what leaves no event."""

    through: MetastoreClient

    @abstractmethod
    def _fresh(self, stem: str) -> str: ...
    @abstractmethod
    def _constraint(self) -> str: ...

    # -- partitions --------------------------------------------------------------------------------------------
    def change_add_partitions_at_once(self) -> None:
        note = self._note("partitioned", "wide", "skewed", "bucketed")
        if not note.keys:
            return
        known = {tuple(values) for values in note.partitions}
        wanted = {tuple(self.world.values(note)) for _ in range(6)} - known
        parts = [contents.partition(self.world, note, list(values)) for values in sorted(wanted)]
        request = AddPartitionsRequest(note.database, note.name, parts, ifNotExists=True, needResult=False)
        if self.rng.random() < 0.5:
            self.client.add_partitions_req(request)
        else:
            self.client.add_partitions(parts)
        note.partitions += [part.values for part in parts]

    def change_append_partition(self) -> None:
        note = self._note("partitioned", "wide", "bucketed")
        values = self.world.values(note)
        if self.rng.random() < 0.5:
            self.client.append_partition(note.database, note.name, values)
        else:
            self.client.append_partition_by_name(note.database, note.name, self.partition_name(note, values))
        if values not in note.partitions:
            note.partitions.append(values)

    def change_drop_partitions_at_once(self) -> None:
        note, _ = self._some_partition()
        gone = self.rng.sample(note.partitions, min(3, len(note.partitions)))
        names = [self.partition_name(note, values) for values in gone]
        request = DropPartitionsRequest(note.database, note.name, RequestPartsSpec(names=names), ifExists=True)
        self.client.drop_partitions_req(request)
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
            self.client.drop_partition(note.database, note.name, values, False)
            note.partitions.remove(values)
        else:
            self.client.add_partition(contents.partition(self.world, note, values))
            note.partitions.append(values)

    def change_drop_partition_by_name(self) -> None:
        note, values = self._some_partition()
        self.client.drop_partition_by_name(note.database, note.name, self.partition_name(note, values), False)
        note.partitions.remove(values)

    def change_alter_many_partitions(self) -> None:
        """All of a table, with everything that is in them, by request or with an environment."""
        note, _ = self._some_partition()
        parts: list[Partition] = self.client.get_partitions(note.database, note.name, -1)
        for part in parts:
            part.sd.cols = contents.columns(self.rng, 2)
            part.parameters = {**(part.parameters or {}), "bulk": str(self.rng.random())}
            part.lastAccessTime = self.rng.choice([0, 77])
        if self.rng.random() < 0.5:
            request = AlterPartitionsRequest(dbName=note.database, tableName=note.name, partitions=parts)
            self.client.alter_partitions_req(request)
        else:
            context = EnvironmentContext({"DO_NOT_UPDATE_STATS": "true"})
            self.client.alter_partitions_with_environment_context(note.database, note.name, parts, context)

    def change_exchange_partition(self) -> None:
        """To a table made for it."""
        note, values = self._some_partition()
        if note.kind != "partitioned":
            return
        table = self._table(note)
        table.tableName, table.sd.location = self._fresh("x"), None
        self.client.create_table(table)
        other = TableNote(note.database, table.tableName, note.kind, list(note.keys))
        self.world.tables.append(other)
        given = {key: value for (key, _), value in zip(note.keys, values, strict=True)}
        exchange = self.rng.choice([self.client.exchange_partition, self.client.exchange_partitions])
        exchange(given, note.database, note.name, note.database, other.name)
        note.partitions.remove(values)
        other.partitions.append(values)

    def change_truncate_partitions(self) -> None:
        note, values = self._some_partition()
        names = [self.partition_name(note, values)]
        if self.rng.random() < 0.5:
            self.through.truncate_table(note.database, note.name, names)
        else:
            self.through.truncate_table_req(TruncateTableRequest(note.database, note.name, names))

    def change_insert(self) -> None:
        """Says that files were added."""
        note, values = self._some_partition()
        data = FireEventRequestData(InsertEventRequestData(filesAdded=["file:/nowhere/f"]))
        event = {"successful": True, "data": data, "dbName": note.database, "tableName": note.name}
        self.client.fire_listener_event(FireEventRequest(**event, partitionVals=values))

    # -- tables ------------------------------------------------------------------------------------------------
    def change_move_table(self) -> None:
        """To another database, under another name or the same."""
        note = self._note("partitioned", "plain", "iceberg")
        table, database = self._table(note), self.rng.choice(self.world.databases)
        new = self.rng.choice([note.name, self._fresh("moved")])
        table.dbName, table.tableName = database, new
        self.client.alter_table(note.database, note.name, table)
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
            place = note.database, note.name
            self.client.alter_table(*place, table)
            note.database, note.name = database, name

    def change_kind_of_table(self) -> None:
        note = self._note("plain", "managed", "partitioned")
        table = self._table(note)
        external = table.tableType == "MANAGED_TABLE"
        table.tableType = "EXTERNAL_TABLE" if external else "MANAGED_TABLE"
        table.parameters["EXTERNAL"] = "TRUE" if external else "FALSE"
        self.client.alter_table(note.database, note.name, table)

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
        self.client.alter_table(note.database, note.name, table)

    def change_materialized_view(self) -> None:
        database, name = self.rng.choice(self.world.databases), self._fresh("mv")
        view = contents.table(self.world, database, name, "plain")
        view.tableType, view.parameters = "MATERIALIZED_VIEW", {}
        view.viewOriginalText = view.viewExpandedText = "select 1"
        source = self._note("plain")
        used = {f"{source.database}.{source.name}"}
        view.creationMetadata = CreationMetadata("hive", database, name, used, validTxnList="9:9::")
        view.rewriteEnabled = self.rng.random() < 0.5
        self.client.create_table(view)
        self.world.tables.append(TableNote(database, name, "materialized", []))

    def change_grant(self) -> None:
        """No event: never answered from objects."""
        note = self._note()
        what = HiveObjectRef(HiveObjectType.TABLE, note.database, note.name)
        info = PrivilegeGrantInfo("SELECT", 1, "me", PrincipalType.USER, self.rng.random() < 0.5)
        user = self.rng.choice(["me", "you"])
        self.through.grant_privileges(PrivilegeBag([HiveObjectPrivilege(what, user, PrincipalType.USER, info, "SQL")]))

    # -- constraints -------------------------------------------------------------------------------------------
    def change_add_foreign_key(self) -> None:
        """To a table that may or may not have a primary key yet; with several columns now and then."""
        parent, child = self._note("plain", "partitioned"), self._note("plain", "partitioned", "iceberg")
        parent_table, child_table = self._table(parent), self._table(child)
        count = min(self.rng.choice([1, 1, 2]), len(parent_table.sd.cols), len(child_table.sd.cols))
        switches = {"enable_cstr": True, "validate_cstr": False, "rely_cstr": True, "catName": "hive"}
        name, primary = self._constraint(), self._fresh("pk")
        keys = [
            SQLPrimaryKey(
                table_db=parent.database,
                table_name=parent.name,
                column_name=parent_table.sd.cols[at].name,
                key_seq=at + 1,
                pk_name=primary,
                **switches,
            )
            for at in range(count)
        ]
        if self.rng.random() < 0.8:
            self._add_primary_key(keys)
        rows = [
            SQLForeignKey(
                pktable_db=parent.database,
                pktable_name=parent.name,
                pkcolumn_name=parent_table.sd.cols[at].name,
                fktable_db=child.database,
                fktable_name=child.name,
                fkcolumn_name=child_table.sd.cols[at].name,
                key_seq=at + 1,
                update_rule=0,
                delete_rule=0,
                fk_name=name,
                pk_name=primary,
                **switches,
            )
            for at in range(count)
        ]
        self.client.add_foreign_key(AddForeignKeyRequest(rows))

    @abstractmethod
    def _add_primary_key(self, rows: list[SQLPrimaryKey]) -> None: ...

    def change_create_table_with_constraints(self) -> None:
        database, name = self.rng.choice(self.world.databases), self._fresh("k")
        table = contents.table(self.world, database, name, "plain")
        row = {"table_db": database, "table_name": name, "column_name": table.sd.cols[0].name, "catName": "hive"}
        switches = {"enable_cstr": True, "validate_cstr": False, "rely_cstr": False}
        key = SQLPrimaryKey(**row, **switches, key_seq=1, pk_name=self._fresh("own"))
        self.client.create_table_with_constraints(table, [key], [], [], [], [], [])
        self.world.tables.append(TableNote(database, name, "plain", []))

    # -- databases and catalogs --------------------------------------------------------------------------------
    def change_recreate_database(self) -> None:
        """With other contents at once."""
        extra = [name for name in self.world.databases if "_new_" in name]
        if not extra:
            return
        name = self.rng.choice(extra)
        self.client.drop_database(name, False, True)
        self.world.tables = [note for note in self.world.tables if note.database != name]
        self.client.create_database(Database(name=name, description=self._fresh("again")))
        contents.add_table(self.world, self.client, name, self._fresh("n"), "partitioned", 3)

    def change_owner_of_database(self) -> None:
        name = self.rng.choice(self.world.databases)
        database = self.client.get_database(name)
        database.ownerName, database.ownerType = self._fresh("owner"), PrincipalType.USER
        self.client.alter_database(name, database)

    def change_description_of_database(self) -> None:
        """No event."""
        name = self.rng.choice(self.world.databases)
        database = self.through.get_database(name)
        database.description = self._fresh("described")
        self.through.alter_database(name, database)

    def change_create_catalog(self) -> None:
        """One more with a database and a table of names that the first catalog has too."""
        catalog = f"{self.world.prefix}cat"
        self.through.create_catalog(CreateCatalogRequest(Catalog(catalog, "", f"file:/nowhere/{catalog}")))
        self.world.catalogs.append(catalog)
        name = self.world.databases[0]
        self.client.create_database(Database(name=name, catalogName=catalog, locationUri=f"file:/nowhere/{catalog}/d"))

    def change_table_of_catalog(self) -> None:
        if not self.world.catalogs:
            return
        catalog, database = self.rng.choice(self.world.catalogs), self.world.databases[0]
        name = self.rng.choice([note.name for note in self.world.tables if note.database == database] or ["x"])
        if self.rng.random() < 0.4:
            self.client.drop_table(f"@{catalog}#{database}", name, False)
            return
        table = contents.table(self.world, database, name, "plain")
        table.catName = catalog
        self.client.create_table(table)
