"""Databases, tables and partitions of every shape, created through a metastore.

Job: fill a metastore with what the contract suite compares; the names start with a prefix, so that it can share a
server. Must not know: hms_cache_proxy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.store.oracle import Oracle, hms

CAPABILITIES = (
    "HIVEFULLACIDWRITE HIVEFULLACIDREAD HIVEMANAGEDINSERTWRITE HIVEMANAGEDINSERTREAD HIVEONLYMQTWRITE"
    " HIVECACHEINVALIDATE EXTWRITE EXTREAD HIVEBUCKET2 HIVESQL CONNECTORREAD CONNECTORWRITE"
).split()
ORC = "org.apache.hadoop.hive.ql.io.orc."
TEXT_INPUT = "org.apache.hadoop.mapred.TextInputFormat"
TEXT_OUTPUT = "org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat"
LAZY_SERDE = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
WEIRD_VALUES = ["a b", "x/y=z:%", "ümläut", "日本語", "😀", "quote'\"\\", "UPPER", "*?[]{}#^", " lead"]
NESTED_TYPE = "struct<a:int,b:array<map<string,struct<c:decimal(38,18),d:timestamp>>>,`weird name`:string>"


def column(name: str, type_: str = "string", comment: str | None = None) -> Any:
    """A FieldSchema."""
    return hms.FieldSchema(name=name, type=type_, comment=comment)


def descriptor(columns: list[Any] | None = None, **fields: Any) -> Any:
    """A text StorageDescriptor, with what is given replaced."""
    values: dict[str, Any] = {
        "cols": [column("id", "bigint", "the id"), column("name", "string", "a name")] if columns is None else columns,
        "inputFormat": TEXT_INPUT,
        "outputFormat": TEXT_OUTPUT,
        "compressed": False,
        "numBuckets": -1,
        "serdeInfo": hms.SerDeInfo(serializationLib=LAZY_SERDE, parameters={"serialization.format": "1"}),
        "bucketCols": [],
        "sortCols": [],
        "parameters": {},
    }
    return hms.StorageDescriptor(**(values | fields))


def orc(**fields: Any) -> Any:
    """An ORC StorageDescriptor."""
    return descriptor(
        inputFormat=ORC + "OrcInputFormat",
        outputFormat=ORC + "OrcOutputFormat",
        serdeInfo=hms.SerDeInfo(serializationLib=ORC + "OrcSerde", parameters={"serialization.format": "1"}),
        **fields,
    )


class Content:
    """Makes objects through one connection; `prefix` begins the name of every database."""

    def __init__(
        self, oracle: Oracle, prefix: str, warehouse: str, version: str = "4.2.0", *, latin1_names: bool = False
    ) -> None:
        self.oracle = oracle
        self.latin1_names = latin1_names
        self.version = version
        self.hive4 = version.startswith("4.")
        self.hive2 = version.startswith("2.")
        self.prefix = prefix
        self.warehouse = warehouse
        self.database = prefix + "main"

    def create(self) -> None:
        """Everything."""
        makers: tuple[Callable[[], None], ...] = (
            self.databases,
            self.plain_tables,
            self.transactional_tables,
            self.views,
            self.odd_tables,
            self.partitioned,
            self.partition_shapes,
            self.many_keys,
            self.acid_partitions,
        )
        for make in makers:
            make()
        if not self.hive2:
            self.other_catalog()

    def table(self, name: str, sd: Any = None, *, acid: bool = False, **fields: Any) -> None:
        """create_table, or create_table_req with capabilities for transactional tables."""
        values: dict[str, Any] = {
            "tableName": name,
            "dbName": self.database,
            "owner": "someone",
            "sd": descriptor() if sd is None else sd,
            "partitionKeys": [],
            "parameters": {"EXTERNAL": "TRUE"},
            "tableType": "EXTERNAL_TABLE",
        }
        table = hms.Table(**(values | fields))
        if not (acid and self.hive4):
            self.oracle.create_table(table)
            return
        request = hms.CreateTableRequest(
            table=table, processorCapabilities=CAPABILITIES, processorIdentifier="content@tests"
        )
        self.oracle.create_table_req(request)

    def partition(self, table: str, values: list[str], sd: Any = None, **fields: Any) -> None:
        """add_partition."""
        defaults: dict[str, Any] = {
            "dbName": self.database,
            "tableName": table,
            "createTime": 1700000000,
            "lastAccessTime": 0,
            "sd": descriptor() if sd is None else sd,
            "parameters": {"k": "v"},
        }
        self.oracle.add_partition(hms.Partition(values=values, **(defaults | fields)))

    def databases(self) -> None:
        """Owners of each kind, comments, parameters, locations, a remote one in Hive 4."""
        make, principal = self.oracle.create_database, hms.PrincipalType
        make(hms.Database(name=self.database, description="the main one", parameters={}))
        make(hms.Database(name=self.prefix + "bare"))
        make(
            hms.Database(
                name=self.prefix + "full",
                description="Größe \u65e5\u672c \U0001f600 'quoted' \\ \n line",
                locationUri=f"{self.warehouse}_elsewhere/{self.prefix}full.db",
                managedLocationUri=f"{self.warehouse}/{self.prefix}managed/full.db",
                parameters={"k": "v", "empty": "", "ünï": "çödé"},
                ownerName="boss",
                ownerType=principal.USER,
                createTime=1600000000,
            )
        )
        make(hms.Database(name=self.prefix + "managed", locationUri=f"{self.warehouse}/{self.prefix}managed.db"))
        make(hms.Database(name=self.prefix + "of_role", ownerName="r", ownerType=principal.ROLE))
        make(hms.Database(name=self.prefix + "of_group", ownerName="g", ownerType=principal.GROUP))
        if not self.hive4:
            return
        connector = hms.DataConnector(
            name=self.prefix + "connector",
            type="mysql",
            url="jdbc:mysql://127.0.0.1:1/db",
            parameters={"hive.sql.dbcp.username": "u"},
        )
        if self.version.startswith("4.0"):
            self.oracle.create_dataconnector(connector)
        else:
            self.oracle.create_dataconnector_req(hms.CreateDataConnectorRequest(connector))
        make(
            hms.Database(
                name=self.prefix + "remote",
                type=hms.DatabaseType.REMOTE,
                connector_name=self.prefix + "connector",
                remote_dbname="theirs",
                parameters={"p": "q"},
            )
        )

    def plain_tables(self) -> None:
        """Managed, external, with everything that a storage descriptor can hold."""
        principal = hms.PrincipalType
        self.table("external_plain")
        self.table("managed_plain", tableType="MANAGED_TABLE", parameters={})
        self.table("of_role", owner="r", ownerType=principal.ROLE)
        self.table("of_group", owner="g", ownerType=principal.GROUP)
        self.table("nobody", owner=None, createTime=1500000000, lastAccessTime=1500000001, retention=90)
        columns = [
            column("c_null_comment", "int", None),
            column("c_empty_comment", "int", ""),
            column("c_unicode", "string", "Kommentar \u00fc \U0001f600"),
            column("c_nested", NESTED_TYPE, "nested"),
            column("c_decimal", "decimal(10,2)"),
        ]
        self.table("odd_columns", descriptor(columns))
        self.table("wide", descriptor([column(f"c{index:04d}", "string", f"n {index}") for index in range(800)]))
        self.table(
            "huge_type",
            descriptor([column("s", "struct<" + ",".join(f"f{i}:int" for i in range(3000)) + ">")]),
        )
        self.table(
            "no_columns",
            descriptor(
                [],
                serdeInfo=hms.SerDeInfo(
                    serializationLib="org.apache.hadoop.hive.serde2.avro.AvroSerDe",
                    parameters={"avro.schema.url": "file:/nowhere/schema.avsc"},
                ),
            ),
        )
        self.table(
            "bucketed",
            descriptor(
                numBuckets=8,
                bucketCols=["id", "name"],
                sortCols=[hms.Order("id", 1), hms.Order("name", 0)],
                compressed=True,
                parameters={"sdk": "sdv", "empty": ""},
                storedAsSubDirectories=False,
            ),
        )
        self.table("skewed", self.skewed_descriptor())
        self.table("full_serde", descriptor(serdeInfo=self.full_serde(LAZY_SERDE)))
        self.table("iceberg_like", descriptor(
            inputFormat="org.apache.iceberg.mr.hive.HiveIcebergInputFormat",
            outputFormat="org.apache.iceberg.mr.hive.HiveIcebergOutputFormat",
            serdeInfo=hms.SerDeInfo(serializationLib="org.apache.iceberg.mr.hive.HiveIcebergSerDe", parameters={}),
        ), parameters={
            "EXTERNAL": "TRUE", "table_type": "ICEBERG", "empty": "", "with \u00fc": "\u65e5",
            "metadata_location": "file:/x/metadata/00001.metadata.json",
            "storage_handler": "org.apache.iceberg.mr.hive.HiveIcebergStorageHandler", "long": "x" * 30000,
        })  # fmt: skip

    @staticmethod
    def skewed_descriptor() -> Any:
        """Two skewed columns with values and the place of one."""
        skew = hms.SkewedInfo(
            skewedColNames=["id", "name"], skewedColValues=[["1", "a"], ["2", "\u00fc"]],
            skewedColValueLocationMaps={("1", "a"): "file:/skew/1/a"},
        )  # fmt: skip
        return descriptor(skewedInfo=skew, storedAsSubDirectories=True)

    def transactional_tables(self) -> None:
        """Full ACID and insert-only."""
        if self.hive2:  # its full-ACID tables are bucketed, and there are no others
            full = self.full_orc()
            full.skewedInfo, full.sortCols = None, []
            for name, sd in (("acid", orc(numBuckets=2, bucketCols=["id"])), ("acid_full", full)):
                self.table(name, sd, tableType="MANAGED_TABLE", parameters={"transactional": "true"})
            return
        self.table("acid", orc(), acid=True, tableType="MANAGED_TABLE", parameters={"transactional": "true"})
        unsorted = self.full_orc()
        unsorted.sortCols = []
        self.table("acid_full", unsorted, acid=True, tableType="MANAGED_TABLE", parameters={"transactional": "true"})
        parameters = {"transactional": "true", "transactional_properties": "insert_only"}
        self.table("insert_only", acid=True, tableType="MANAGED_TABLE", parameters=parameters)
        self.table("insert_only_full", self.full_orc(), acid=True, tableType="MANAGED_TABLE", parameters=parameters)

    @classmethod
    def full_orc(cls) -> Any:
        """An ORC descriptor with everything set."""
        full = orc()
        full.parameters = {"a": "b"}
        full.sortCols, full.bucketCols, full.numBuckets = [hms.Order("id", 1)], ["id"], 2
        full.skewedInfo, full.storedAsSubDirectories = cls.skewed_descriptor().skewedInfo, True
        full.serdeInfo = cls.full_serde(ORC + "OrcSerde")
        return full

    @staticmethod
    def full_serde(library: str) -> Any:
        """A SerDeInfo with everything set."""
        return hms.SerDeInfo(
            name="serde name", serializationLib=library,
            parameters={"field.delim": "\x01", "colelction.delim": "\x02", "ünï": "é", "empty": ""},
            description="a serde", serializerClass="x.Ser", deserializerClass="x.Deser", serdeType=hms.SerdeType.HIVE,
        )  # fmt: skip

    def views(self) -> None:
        """Views and a materialized view, which needs its source's creation metadata."""
        texts: dict[str, Any] = {
            "viewOriginalText": "select * from t",
            "viewExpandedText": "select `t`.`id` from `db`.`t`",
        }
        self.table("a_view", tableType="VIRTUAL_VIEW", parameters={}, **texts)
        self.table("table_with_texts", **texts)
        if self.hive2:
            return
        request = hms.GetTableRequest(dbName=self.database, tblName="acid")
        source = hms.Table(tableName="acid", dbName=self.database, catName="hive")
        self.oracle.get_table_req(request)
        creation = hms.CreationMetadata(
            catName="hive", dbName=self.database, tblName="a_materialized_view",
            tablesUsed=[f"{self.database}.acid"], validTxnList="1:9223372036854775807::",
            sourceTables=[hms.SourceTable(table=source, insertedCount=3, updatedCount=2, deletedCount=1)],
        )  # fmt: skip
        self.table(
            "a_materialized_view", orc(), acid=True, tableType="MATERIALIZED_VIEW", rewriteEnabled=True,
            parameters={}, creationMetadata=creation, **texts,
        )  # fmt: skip

    def odd_tables(self) -> None:
        """Names, parameters."""
        self.table("MixedCase", parameters={"EXTERNAL": "TRUE", "UpperKey": "V", "k=v": "=", "newline": "a\nb"})
        self.table("no_serde_params", descriptor(serdeInfo=hms.SerDeInfo(serializationLib=LAZY_SERDE)))

    def partitioned(self) -> None:
        """A string key with values of every kind."""
        keys = [column("p", "string", "key comment")]
        self.table("parts", partitionKeys=keys)
        self.table("no_parts", partitionKeys=[column("p", "string"), column("q", "int", "")])
        for value in ["1", "2", "__HIVE_DEFAULT_PARTITION__", *WEIRD_VALUES]:
            if not self.latin1_names or max(value) <= "\xff":
                self.partition("parts", [value])

    def partition_shapes(self) -> None:
        """Partitions that differ from their table and from one another."""
        self.table("shapes", partitionKeys=[column("p", "string")])
        shapes: dict[str, dict[str, Any]] = {
            "plain": {},
            "no_params": {"parameters": {}},
            "null_params": {"parameters": None},
            "odd_params": {"parameters": {"empty": "", "ü": "日本", "long": "y" * (20000 if self.hive4 else 4000)}},
            "access_time": {"lastAccessTime": 1600000000},
            "own_columns": {"sd": descriptor([column("other", NESTED_TYPE, None)])},
            "own_serde": {"sd": orc()},
            "empty_columns": {"sd": descriptor([])},
            "located": {"sd": descriptor(location=f"{self.warehouse}/located")},
            "bucketed": {"sd": descriptor(numBuckets=4, bucketCols=["id"], sortCols=[hms.Order("id", 1)])},
            "sd_params": {"sd": descriptor(parameters={"a": "b", "empty": ""}, compressed=True)},
            "skewed": {"sd": self.skewed_descriptor()},
            "serde_full": {"sd": descriptor(serdeInfo=self.full_serde(LAZY_SERDE))},
            "serde_bare": {"sd": descriptor(serdeInfo=hms.SerDeInfo(parameters={}))},
            "no_serde_params": {"sd": descriptor(serdeInfo=hms.SerDeInfo(serializationLib="x"))},
        }  # fmt: skip
        if not self.hive4:
            del shapes["skewed"]
        for name, fields in shapes.items():
            self.partition("shapes", [name], **fields)
        self.table("skewed_parts", partitionKeys=[column("p", "string")])
        self.partition("skewed_parts", ["plain"])
        self.partition("skewed_parts", ["skewed"], sd=self.skewed_descriptor())
        self.table("view_parts", tableType="VIRTUAL_VIEW", parameters={}, partitionKeys=[column("p", "string")],
                   viewOriginalText="select 1", viewExpandedText="select 1")  # fmt: skip
        self.partition("view_parts", ["1"])

    def many_keys(self) -> None:
        """Keys of several types."""
        keys = [column("year", "int"), column("day", "date"), column("city", "string", "a city")]
        self.table("keys", partitionKeys=keys)
        for year in ("9", "10", "2024"):
            for day in ("2024-01-01", "2024-12-31"):
                for city in ("oslo", "zürich", "new york/east"):
                    self.partition("keys", [year, day, city])

    def acid_partitions(self) -> None:
        """Partitions of transactional tables."""
        keys = [column("p", "string")]
        if self.hive2:
            bucketed = orc(numBuckets=2, bucketCols=["id"])
            self.table("acid_parts", bucketed, tableType="MANAGED_TABLE", partitionKeys=keys,
                       parameters={"transactional": "true"})  # fmt: skip
            self.partition("acid_parts", ["1"], bucketed)
            return
        insert_only = {"transactional": "true", "transactional_properties": "insert_only"}
        self.table("acid_parts", orc(), acid=True, tableType="MANAGED_TABLE", partitionKeys=keys,
                   parameters={"transactional": "true"})  # fmt: skip
        self.table("insert_only_parts", acid=True, tableType="MANAGED_TABLE", partitionKeys=keys,
                   parameters=insert_only)  # fmt: skip
        for table, sd in (("acid_parts", orc), ("insert_only_parts", descriptor)):
            self.partition(table, ["1"], sd())
            full = self.full_orc()
            if not self.hive4:
                full.skewedInfo = None
            self.partition(table, ["2"], full)

    def other_catalog(self) -> None:
        """A catalog beside hive, with a database and a partitioned table."""
        catalog, database = self.prefix + "catalog", self.prefix + "indb"
        self.oracle.create_catalog(
            hms.CreateCatalogRequest(
                hms.Catalog(name=catalog, description="another", locationUri=f"{self.warehouse}/{catalog}")
            )
        )
        self.oracle.create_database(hms.Database(name=database, catalogName=catalog, description="d"))
        fields: dict[str, Any] = {"dbName": database, "catName": catalog}
        self.table("other", partitionKeys=[column("p", "int")], **fields)
        partition = hms.Partition(values=["1"], tableName="other", sd=descriptor(), parameters={}, **fields)
        self.oracle.add_partitions_req(
            hms.AddPartitionsRequest(
                dbName=database, tblName="other", parts=[partition], ifNotExists=False, catName=catalog
            )
        )
