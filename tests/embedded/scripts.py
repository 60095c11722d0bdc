"""The calls that Hive and the embedded metastore are asked, family by family.

Job: lists of (method, arguments). A database name is a parameter, so that metastores can be shared.
"""

from __future__ import annotations

from typing import Any

from tests.embedded.differential import ELSEWHERE, Step, struct


def field(name: str, kind: str | None = "string", comment: str | None = None) -> Any:
    return struct("FieldSchema", name=name, type=kind, comment=comment)


def descriptor(columns: list[Any] | None = None, location: str | None = None, **fields: Any) -> Any:
    values: dict[str, Any] = {
        "cols": [field("a", "int")] if columns is None else columns,
        "location": location,
        "inputFormat": "i",
        "outputFormat": "o",
        "compressed": False,
        "numBuckets": -1,
        "serdeInfo": struct("SerDeInfo", name="s", serializationLib="lib", parameters={}),
        "bucketCols": [],
        "sortCols": [],
        "parameters": {},
    }
    return struct("StorageDescriptor", **(values | fields))


def table(db: str, name: str | None, **fields: Any) -> Any:
    values: dict[str, Any] = {
        "dbName": db,
        "tableName": name,
        "owner": "me",
        "sd": descriptor(),
        "partitionKeys": [],
        "parameters": {},
        "tableType": "EXTERNAL_TABLE",
    }
    return struct("Table", **(values | fields))


def partition(db: str, name: str, values: list[str], **fields: Any) -> Any:
    base: dict[str, Any] = {"dbName": db, "tableName": name, "values": values, "sd": descriptor(), "parameters": {}}
    return struct("Partition", **(base | fields))


def request(name: str, db: str, table_name: str, **fields: Any) -> dict[str, Any]:
    return {"req": struct(name, dbName=db, tblName=table_name, **fields)}


def databases(db: str) -> list[Step]:
    other = f"{db}_other"
    return [
        ("create_database", {"database": struct("Database", name=db, description="d")}),
        ("get_database", {"name": db}),
        ("get_database", {"name": db.upper()}),
        ("get_database", {"name": f"@hive#{db}"}),
        ("get_database", {"name": "@nocat#x"}),
        ("get_database", {"name": "nodb"}),
        ("get_database_req", {"request": struct("GetDatabaseRequest", name=db)}),
        ("get_database_req", {"request": struct("GetDatabaseRequest", name=db, catalogName="hive")}),
        ("create_database", {"database": struct("Database", name=db)}),
        ("create_database", {"database": struct("Database", name="x", catalogName="nocat")}),
        ("create_database", {"database": struct("Database", name="a\nb")}),
        ("create_database", {"database": struct("Database", name="")}),
        ("create_database", {"database": struct("Database", name=other, parameters={"k": "v"}, ownerName="me")}),
        ("get_database", {"name": other}),
        ("get_databases", {"pattern": f"{db}*"}),
        ("get_databases", {"pattern": f"{db}|nodb"}),
        ("get_databases_req", {"request": struct("GetDatabaseObjectsRequest", catalogName="hive", pattern=db)}),
        ("alter_database", {"dbname": other, "db": struct("Database", name=other, parameters={"a": "b"})}),
        ("get_database", {"name": other}),
        ("alter_database", {"dbname": other, "db": struct("Database", name="renamed")}),
        ("alter_database", {"dbname": "nodb", "db": struct("Database", name="nodb")}),
        ("get_database", {"name": other}),
        ("drop_database", {"name": other, "deleteData": True, "cascade": False}),
        ("drop_database", {"name": other, "deleteData": True, "cascade": False}),
        ("drop_database", {"name": "default", "deleteData": True, "cascade": False}),
        ("get_tables", {"db_name": "nodb", "pattern": "*"}),
        ("get_all_tables", {"db_name": "nodb"}),
    ]


def tables(db: str) -> list[Step]:
    view = {"tableType": "VIRTUAL_VIEW", "viewOriginalText": "x", "viewExpandedText": "y"}
    keys = [field("p"), field("q", "int")]
    elsewhere = descriptor([field("a", "string")], ELSEWHERE)

    def inserted(name: str, **fields: Any) -> dict[str, Any]:
        data = struct("FireEventRequestData", insertData=struct("InsertEventRequestData", **fields))
        return {"rqst": struct("FireEventRequest", successful=True, data=data, dbName=db, tableName=name)}

    able = {"processorCapabilities": ["EXTREAD"], "processorIdentifier": "x"}
    external = {"EXTERNAL": "TRUE"}
    return [
        ("create_table", {"tbl": table(db, "t1", tableType="MANAGED_TABLE")}),
        ("get_table_req", request("GetTableRequest", db, "t1")),
        ("get_table_req", request("GetTableRequest", db.upper(), "T1", **able)),
        ("create_table", {"tbl": table(db, "t1")}),
        ("create_table", {"tbl": table(db, "T1")}),
        ("create_table", {"tbl": table("nodb", "t1")}),
        ("create_table", {"tbl": table(db, "t/2")}),
        ("create_table", {"tbl": table(db, "t\n2")}),
        ("create_table", {"tbl": table(db, "t3", sd=descriptor([]))}),
        ("create_table", {"tbl": table(db, "t5", sd=descriptor([field("a", "nosuch")]))}),
        ("create_table", {"tbl": table(db, "v1", **view)}),
        ("get_table_req", request("GetTableRequest", db, "v1")),
        ("get_table_req", request("GetTableRequest", db, "v1", **able)),
        ("create_table", {"tbl": table(db, "p1", partitionKeys=keys, parameters=external)}),
        ("get_table_req", request("GetTableRequest", db, "p1")),
        ("get_table_req", request("GetTableRequest", db, "p1", **able)),
        ("get_table_req", request("GetTableRequest", db, "nope")),
        ("get_table_req", request("GetTableRequest", "nodb", "nope")),
        ("alter_table", {"dbname": db, "tbl_name": "t1", "new_tbl": table(db, "t1", parameters={"x": "y"})}),
        ("alter_table", {"dbname": db, "tbl_name": "nope", "new_tbl": table(db, "nope")}),
        ("alter_table", {"dbname": db, "tbl_name": "t1", "new_tbl": table(db, "p1")}),
        ("alter_table", {"dbname": db, "tbl_name": "t1", "new_tbl": table(db, "t9", sd=elsewhere)}),
        ("get_table_req", request("GetTableRequest", db, "t9")),
        ("alter_table", {"dbname": db, "tbl_name": "p1", "new_tbl": table(db, "p1", partitionKeys=[field("p")])}),
        (
            "alter_table",
            {"dbname": db, "tbl_name": "t9", "new_tbl": table(db, "t9", sd=descriptor([field("b", "int")]))},
        ),
        ("truncate_table", {"dbName": db, "tableName": "t9", "partNames": []}),
        ("truncate_table", {"dbName": db, "tableName": "nope", "partNames": []}),
        ("fire_listener_event", inserted("t9", filesAdded=["file:/x"])),
        ("fire_listener_event", inserted("t9", filesAdded=["file:/x"], filesAddedChecksum=["1"], replace=False)),
        ("fire_listener_event", inserted("nope", filesAdded=[])),
        ("truncate_table", {"dbName": db, "tableName": "p1", "partNames": ["p=nope/q=1"]}),
        ("get_tables", {"db_name": db, "pattern": "*"}),
        ("get_tables", {"db_name": db, "pattern": "t*|v1"}),
        ("get_tables_by_type", {"db_name": db, "pattern": "*", "tableType": "VIRTUAL_VIEW"}),
        ("get_table_meta", {"db_patterns": db, "tbl_patterns": "*", "tbl_types": []}),
        ("get_table_meta", {"db_patterns": db, "tbl_patterns": "*", "tbl_types": ["VIRTUAL_VIEW"]}),
        ("get_table_objects_by_name_req", {"req": struct("GetTablesRequest", dbName=db, tblNames=["nope", "v1"])}),
        ("get_table_objects_by_name_req", {"req": struct("GetTablesRequest", dbName="nodb", tblNames=["nope"])}),
        ("get_fields", {"db_name": db, "table_name": "nope"}),
        ("drop_table", {"dbname": db, "name": "nope", "deleteData": True}),
        ("drop_table", {"dbname": "nodb", "name": "nope", "deleteData": True}),
        ("drop_table", {"dbname": db, "name": "t3", "deleteData": True}),
        ("drop_database", {"name": db, "deleteData": True, "cascade": False}),
        ("get_all_tables", {"db_name": db}),
    ]


def partitions(db: str) -> list[Step]:
    keys = [field("p"), field("q", "int")]
    here = {"db_name": db, "tbl_name": "pt"}
    nowhere = {"db_name": db, "tbl_name": "nope"}
    all_of = {"max_parts": -1}

    def part(*values: str, **fields: Any) -> Any:
        return partition(db, "pt", list(values), **fields)

    def added(parts: list[Any], *, unless: bool) -> dict[str, Any]:
        fields = {"dbName": db, "tblName": "pt", "parts": parts, "ifNotExists": unless, "needResult": True}
        return {"request": struct("AddPartitionsRequest", **fields)}

    def dropped(names: list[str], *, unless: bool) -> dict[str, Any]:
        parts = struct("RequestPartsSpec", names=names)
        fields = {"parts": parts, "deleteData": True, "ifExists": unless, "needResult": True}
        return request("DropPartitionsRequest", db, "pt", **fields)

    return [
        ("create_table", {"tbl": table(db, "pt", partitionKeys=keys, parameters={"EXTERNAL": "TRUE"})}),
        ("create_table", {"tbl": table(db, "plain", parameters={"EXTERNAL": "TRUE"})}),
        ("add_partition", {"new_part": part("x", "1")}),
        ("add_partition", {"new_part": part("x", "1")}),
        ("add_partition", {"new_part": part("x")}),
        ("add_partition", {"new_part": part("x", "1", "2")}),
        ("add_partition", {"new_part": partition(db, "nope", ["x", "2"])}),
        ("add_partition", {"new_part": partition("nodb", "nope", ["x", "2"])}),
        ("add_partition", {"new_part": partition(db, "plain", ["x", "2"])}),
        ("append_partition", {**here, "part_vals": ["a b", "3"]}),
        ("append_partition_by_name", {**here, "part_name": "p=c/q=4"}),
        ("append_partition_by_name", {**here, "part_name": "p=c/r=4"}),
        ("append_partition_by_name", {**here, "part_name": ""}),
        ("add_partitions", {"new_parts": []}),
        ("add_partitions", {"new_parts": [part("y", "1"), part("y", "2", parameters={"k": "v"})]}),
        ("add_partitions_req", added([part("y", "1"), part("y", "3")], unless=True)),
        ("add_partitions_req", added([part("y", "1"), part("y", "4")], unless=False)),
        ("get_partition", {**here, "part_vals": ["x", "1"]}),
        ("get_partition", {**here, "part_vals": ["no", "1"]}),
        ("get_partition", {**nowhere, "part_vals": ["no", "1"]}),
        ("get_partition", {**here, "part_vals": ["no"]}),
        ("get_partition_by_name", {**here, "part_name": "p=x/q=1"}),
        ("get_partition_by_name", {**here, "part_name": "p=x/q=9"}),
        ("get_partition_by_name", {**here, "part_name": "nonsense"}),
        ("get_partition_names", {**here, **all_of}),
        ("get_partition_names", {**nowhere, **all_of}),
        ("get_partition_names", {"db_name": db, "tbl_name": "plain", **all_of}),
        ("get_partitions", {**here, "max_parts": 1}),
        ("get_partitions", {**nowhere, "max_parts": 1}),
        ("get_partition_names_ps", {**here, **all_of, "part_vals": ["x", ""]}),
        ("get_partition_names_ps", {**here, **all_of, "part_vals": ["", "1"]}),
        ("get_partition_names_ps", {**here, **all_of, "part_vals": ["1", "1", "1"]}),
        ("get_partition_names_ps", {**nowhere, **all_of, "part_vals": ["1"]}),
        ("get_partition_names_ps", {**nowhere, **all_of, "db_name": "@HIVE#NoDb", "tbl_name": "T", "part_vals": ["1"]}),
        ("get_partitions_ps", {**nowhere, **all_of, "part_vals": ["1"]}),
        ("get_partitions_ps", {**here, **all_of, "part_vals": ["y"]}),
        (
            "get_partitions_ps_with_auth",
            {**here, **all_of, "part_vals": ["x"], "user_name": "u", "group_names": ["g"]},
        ),
        ("get_partitions_by_names", {**here, "names": ["p=x/q=1", "nope"]}),
        ("get_partitions_by_names", {**nowhere, "names": ["p=x/q=1"]}),
        ("get_partitions_by_filter", {**here, **all_of, "filter": 'p="x"'}),
        ("get_partitions_by_filter", {**here, **all_of, "filter": 'p >= "x" and q > 1'}),
        ("get_partitions_by_filter", {**here, **all_of, "filter": 'zz="x"'}),
        ("get_partitions_by_filter", {**here, **all_of, "filter": 'p != "x" and q < 3'}),
        ("get_partitions_by_filter", {**here, **all_of, "filter": 'p like "a%"'}),
        ("get_partitions_by_filter", {**here, **all_of, "filter": '(p) in ("x", "y") and q < 3'}),
        ("get_partitions_by_filter", {**here, **all_of, "filter": '(p) not in ("x", "y")'}),
        ("get_partitions_by_filter", {**here, **all_of, "filter": "((q) in (1, 2))"}),
        ("get_partitions_by_filter", {**here, **all_of, "filter": 'p between "c" and "x"'}),
        ("get_partitions_by_filter", {**here, **all_of, "filter": 'p = "y" and (q = 1 or q = 3)'}),
        ("get_partitions_by_filter", {**here, "max_parts": 1, "filter": 'p = "y"'}),
        ("get_num_partitions_by_filter", {**here, "filter": "q = 1"}),
        ("alter_partition", {**here, "new_part": part("x", "1", parameters={"n": "m"})}),
        (
            "alter_partition",
            {**here, "new_part": part("x", "1", parameters={"n": "m"}, sd=descriptor(None, f"{ELSEWHERE}/one"))},
        ),
        ("get_partition", {**here, "part_vals": ["x", "1"]}),
        ("alter_partition", {**here, "new_part": part("no", "1")}),
        ("alter_partition", {**nowhere, "new_part": part("no", "1")}),
        ("alter_partitions", {**here, "new_parts": [part("x", "1"), part("nn", "1")]}),
        ("rename_partition", {**here, "part_vals": ["x", "1"], "new_part": part("x", "7")}),
        ("rename_partition", {**here, "part_vals": ["x", "1"], "new_part": part("x", "8")}),
        ("rename_partition", {**here, "part_vals": ["x", "7"], "new_part": part("y", "1")}),
        ("get_partition", {**here, "part_vals": ["x", "7"]}),
        ("drop_partition", {**here, "part_vals": ["x", "7"], "deleteData": True}),
        ("drop_partition", {**here, "part_vals": ["x", "7"], "deleteData": True}),
        ("drop_partition_by_name", {**here, "part_name": "p=y/q=77", "deleteData": True}),
        ("drop_partition", {**nowhere, "part_vals": ["x", "7"], "deleteData": True}),
        ("drop_partitions_req", dropped(["p=y/q=1", "p=zz/q=1"], unless=False)),
        ("drop_partitions_req", dropped(["p=y/q=1", "p=zz/q=1"], unless=True)),
        ("get_partition_names", {**here, **all_of}),
        ("partition_name_to_vals", {"part_name": "p=a%2Fb/q=1"}),
        ("partition_name_to_spec", {"part_name": "p=a%2Fb/q=1"}),
        ("drop_database", {"name": db, "deleteData": True, "cascade": True}),
        ("get_partition_names", {**here, **all_of}),
    ]


def functions(db: str) -> list[Step]:
    def function(name: str, **fields: Any) -> Any:
        base: dict[str, Any] = {
            "functionName": name,
            "dbName": db,
            "className": "a.B",
            "ownerName": "me",
            "ownerType": 1,
            "functionType": 1,
            "resourceUris": [struct("ResourceUri", resourceType=1, uri="file:/a.jar")],
        }
        return struct("Function", **(base | fields))

    def of(name: str) -> dict[str, Any]:
        return {"dbName": db, "funcName": name}

    return [
        ("create_function", {"func": function("f1")}),
        ("create_function", {"func": function("F1")}),
        ("create_function", {"func": function("f2", resourceUris=[], ownerName=None)}),
        ("create_function", {"func": function("f/3")}),
        ("create_function", {"func": function("f4", className=None)}),
        ("create_function", {"func": function("f5", ownerType=None)}),
        ("create_function", {"func": function("f6", functionType=None)}),
        ("create_function", {"func": function("f7", dbName="nodb")}),
        ("get_function", of("f1")),
        ("get_function", of("F2")),
        ("get_function", of("nope")),
        ("get_functions", {"dbName": db, "pattern": "*"}),
        ("get_functions", {"dbName": db, "pattern": "f1|nope"}),
        ("get_functions", {"dbName": "nodb", "pattern": "*"}),
        ("alter_function", {**of("f1"), "newFunc": function("f1", className="c.D")}),
        ("get_function", of("f1")),
        ("alter_function", {**of("nope"), "newFunc": function("f9")}),
        ("alter_function", {**of("f1"), "newFunc": function("f8")}),
        ("get_functions", {"dbName": db, "pattern": "*"}),
        ("drop_function", of("f8")),
        ("drop_function", of("f8")),
        ("drop_database", {"name": db, "deleteData": True, "cascade": False}),
        ("drop_database", {"name": db, "deleteData": True, "cascade": True}),
    ]


def constraints(db: str) -> list[Step]:
    sd = descriptor([field("a", "int"), field("b")])
    external = {"EXTERNAL": "TRUE"}
    flags = {"enable_cstr": True, "validate_cstr": False, "rely_cstr": True}
    keys = [field("k")]

    def element(kind: str, column: str | None, table_name: str = "p", **fields: Any) -> Any:
        place = {"catName": "hive", "table_db": db, "table_name": table_name, "column_name": column}
        return struct(kind, **place, **flags, **fields)

    def primary(name: str, column: str = "a", table_name: str = "p") -> dict[str, Any]:
        one = element("SQLPrimaryKey", column, table_name, key_seq=1, pk_name=name)
        return {"req": struct("AddPrimaryKeyRequest", primaryKeyCols=[one])}

    def unique(name: str, column: str = "b", table_name: str = "p") -> dict[str, Any]:
        one = element("SQLUniqueConstraint", column, table_name, key_seq=1, uk_name=name)
        return {"req": struct("AddUniqueConstraintRequest", uniqueConstraintCols=[one])}

    def foreign(name: str, column: str = "a", parent: str = "p", child: str = "c", to: str = "a") -> dict[str, Any]:
        places = {"pktable_db": db, "pktable_name": parent, "fktable_db": db, "fktable_name": child}
        rest = {"key_seq": 1, "update_rule": 0, "delete_rule": 0, "fk_name": name, "pk_name": "pk1", "catName": "hive"}
        one = struct("SQLForeignKey", **places, **rest, **flags, pkcolumn_name=to, fkcolumn_name=column)
        return {"req": struct("AddForeignKeyRequest", foreignKeyCols=[one])}

    def of(kind: str, name: str = "p", **fields: Any) -> dict[str, Any]:
        return {"request": struct(kind, catName="hive", db_name=db, tbl_name=name, **fields)}

    def references(**fields: Any) -> dict[str, Any]:
        return {"request": struct("ForeignKeysRequest", catName="hive", **fields)}

    def dropped(table_name: str, name: str) -> dict[str, Any]:
        place = {"catName": "hive", "dbname": db, "tablename": table_name, "constraintname": name}
        return {"req": struct("DropConstraintRequest", **place)}

    def every(name: str) -> dict[str, Any]:
        return {"request": struct("AllTableConstraintsRequest", catName="hive", dbName=db, tblName=name)}

    nulls = [element("SQLNotNullConstraint", "b", nn_name="nn1"), element("SQLNotNullConstraint", "a", nn_name="nn2")]
    default = element("SQLDefaultConstraint", "b", default_value="'x'", dc_name="df1")
    checks = [
        element("SQLCheckConstraint", "b", check_expression="b>1", dc_name="ck1"),
        element("SQLCheckConstraint", None, check_expression="a>1", dc_name="ck2"),
    ]
    return [
        ("create_table", {"tbl": table(db, "p", sd=sd, partitionKeys=keys, parameters=external)}),
        ("create_table", {"tbl": table(db, "c", sd=sd, parameters=external)}),
        ("add_primary_key", primary("pk1", table_name="nope")),
        ("add_primary_key", primary("pk1", "nope")),
        ("add_primary_key", primary("pk1")),
        ("add_primary_key", primary("pk1")),
        ("add_primary_key", primary("pk2", "b")),
        ("add_primary_key", {"req": struct("AddPrimaryKeyRequest", primaryKeyCols=[])}),
        ("get_primary_keys", of("PrimaryKeysRequest")),
        ("get_primary_keys", of("PrimaryKeysRequest", "nope")),
        ("add_unique_constraint", unique("uk1")),
        ("add_unique_constraint", unique("uk1")),
        ("add_unique_constraint", unique("uk1", table_name="nope")),
        ("get_unique_constraints", of("UniqueConstraintsRequest")),
        ("add_foreign_key", foreign("fk1", parent="nope")),
        ("add_foreign_key", foreign("fk1", child="nope")),
        ("add_foreign_key", foreign("fk1", "nope")),
        ("add_foreign_key", foreign("fk1")),
        ("add_foreign_key", foreign("fk1")),
        (
            "get_foreign_keys",
            references(parent_db_name=db, parent_tbl_name="p", foreign_db_name=db, foreign_tbl_name="c"),
        ),
        ("get_foreign_keys", references(parent_db_name=db, parent_tbl_name="p")),
        ("get_foreign_keys", references(foreign_db_name=db, foreign_tbl_name="p")),
        ("add_not_null_constraint", {"req": struct("AddNotNullConstraintRequest", notNullConstraintCols=nulls)}),
        ("add_default_constraint", {"req": struct("AddDefaultConstraintRequest", defaultConstraintCols=[default])}),
        ("add_check_constraint", {"req": struct("AddCheckConstraintRequest", checkConstraintCols=checks)}),
        ("get_check_constraints", of("CheckConstraintsRequest")),
        ("get_default_constraints", of("DefaultConstraintsRequest")),
        ("get_all_table_constraints", every("c")),
        ("get_all_table_constraints", every("nope")),
        ("drop_constraint", dropped("p", "nope")),
        ("drop_constraint", dropped("nope", "uk1")),
        ("drop_constraint", dropped("p", "fk1")),
        ("drop_constraint", dropped("c", "fk1")),
        ("drop_constraint", dropped("p", "UK1")),
        ("get_unique_constraints", of("UniqueConstraintsRequest")),
        ("drop_database", {"name": db, "deleteData": True, "cascade": True}),
    ]


def statistics(db: str) -> list[Step]:
    def data(**fields: Any) -> Any:
        return struct("ColumnStatisticsData", **fields)

    def bounds(kind: str, low: Any, high: Any) -> Any:
        return struct(kind, lowValue=low, highValue=high, numNulls=0, numDVs=5)

    def decimal(unscaled: bytes) -> Any:
        return struct("Decimal", unscaled=unscaled, scale=2)

    day, second = struct("Date", daysSinceEpoch=5), struct("Timestamp", secondsSinceEpoch=5)
    decimals = bounds("DecimalColumnStatsData", decimal(b"\xff"), decimal(b"'\x10"))
    texts = struct("StringColumnStatsData", maxColLen=9, avgColLen=2.5, numNulls=1, numDVs=4)
    every = {
        "a": ("int", data(longStats=bounds("LongColumnStatsData", 1, 9))),
        "b": ("string", data(stringStats=texts)),
        "c": ("double", data(doubleStats=bounds("DoubleColumnStatsData", 1.5, 9.25))),
        "d": ("decimal(10,2)", data(decimalStats=decimals)),
        "e": ("date", data(dateStats=bounds("DateColumnStatsData", day, None))),
        "f": ("timestamp", data(timestampStats=bounds("TimestampColumnStatsData", second, None))),
        "g": ("boolean", data(booleanStats=struct("BooleanColumnStatsData", numTrues=1, numFalses=2, numNulls=3))),
        "h": ("binary", data(binaryStats=struct("BinaryColumnStatsData", maxColLen=3, avgColLen=1.0, numNulls=2))),
    }
    sd = descriptor([field(name, kind) for name, (kind, _) in every.items()])
    wider = {
        "a": ("int", data(longStats=bounds("LongColumnStatsData", -1, 5))),
        "c": ("double", data(doubleStats=bounds("DoubleColumnStatsData", 2.5, 10.0))),
        "e": ("date", data(dateStats=bounds("DateColumnStatsData", struct("Date", daysSinceEpoch=3), day))),
    }

    def about(name: str, part: str | None = None, columns: str = "abcdefgh", said: dict[str, Any] = every) -> Any:
        place = {"isTblLevel": part is None, "dbName": db, "tableName": name, "partName": part, "catName": "hive"}
        objects = [
            struct("ColumnStatisticsObj", colName=column, colType=said[column][0], statsData=said[column][1])
            for column in columns
        ]
        return struct("ColumnStatistics", statsDesc=struct("ColumnStatisticsDesc", **place), statsObj=objects)

    def of_table(name: str, columns: list[str], engine: str = "hive") -> dict[str, Any]:
        fields = {"dbName": db, "tblName": name, "colNames": columns, "engine": engine}
        return {"request": struct("TableStatsRequest", **fields)}

    of_parts = {"dbName": db, "tblName": "p", "colNames": ["a", "b"], "partNames": ["k=1", "k=2"], "engine": "hive"}
    of_partitions = {"request": struct("PartitionsStatsRequest", **of_parts)}
    several = [about("p", "k=2", "ab")]  # of more than one, Hive logs in the order of a hash table
    of_several = {"request": struct("SetPartitionsStatsRequest", colStats=several, needMerge=False, engine="hive")}

    def merged(*each: Any, argument: str = "request", merge: bool = True) -> dict[str, Any]:
        return {argument: struct("SetPartitionsStatsRequest", colStats=list(each), needMerge=merge, engine="hive")}

    t, p = {"db_name": db, "tbl_name": "t"}, {"db_name": db, "tbl_name": "p"}
    external = {"EXTERNAL": "TRUE"}
    return [
        ("create_table", {"tbl": table(db, "t", sd=sd, parameters=external)}),
        ("create_table", {"tbl": table(db, "p", sd=sd, partitionKeys=[field("k")], parameters=external)}),
        ("add_partitions", {"new_parts": [partition(db, "p", ["1"], sd=sd), partition(db, "p", ["2"], sd=sd)]}),
        ("update_table_column_statistics", {"stats_obj": about("t")}),
        ("update_table_column_statistics", {"stats_obj": about("nope")}),
        ("update_table_column_statistics", {"stats_obj": about("t", None, "a")}),
        ("get_table_req", request("GetTableRequest", db, "t")),
        ("get_table_column_statistics", {**t, "col_name": "a"}),
        ("get_table_column_statistics", {**t, "col_name": "zz"}),
        ("get_table_column_statistics", {"db_name": db, "tbl_name": "nope", "col_name": "a"}),
        ("get_table_statistics_req", of_table("t", [*every, "zz"])),
        ("get_table_statistics_req", of_table("nope", ["a"])),
        ("get_table_statistics_req", of_table("t", ["a"], "impala")),
        ("set_aggr_stats_for", merged(about("t"))),
        ("set_aggr_stats_for", merged(about("t", None, "ace", wider))),
        ("get_table_statistics_req", of_table("t", list(every))),
        ("set_aggr_stats_for", merged(about("p", None, "ab"))),
        ("get_table_statistics_req", of_table("p", ["a", "b"])),
        ("set_aggr_stats_for", merged(about("t"), about("t"))),
        ("set_aggr_stats_for", merged()),
        ("update_table_column_statistics_req", merged(about("t"), argument="req")),
        ("update_table_column_statistics_req", merged(about("t"), about("t"), argument="req", merge=False)),
        ("update_partition_column_statistics_req", merged(about("p", "k=1"), argument="req")),
        ("update_partition_column_statistics", {"stats_obj": about("p", "k=1")}),
        ("update_partition_column_statistics", {"stats_obj": about("p", "k=9")}),
        ("get_partition", {**p, "part_vals": ["1"]}),
        ("get_partition_column_statistics", {**p, "part_name": "k=1", "col_name": "a"}),
        ("get_partition_column_statistics", {**p, "part_name": "k=2", "col_name": "a"}),
        ("get_partitions_statistics_req", of_partitions),
        ("set_aggr_stats_for", merged(about("p", "k=1", "ab"))),
        ("set_aggr_stats_for", merged(about("p", "k=2", "ab"))),
        ("get_partitions_statistics_req", of_partitions),
        ("set_aggr_stats_for", of_several),
        ("get_partitions_statistics_req", of_partitions),
        ("get_partition", {**p, "part_vals": ["2"]}),
        ("delete_table_column_statistics", {**t, "col_name": "a", "engine": "hive"}),
        ("delete_table_column_statistics", {**t, "col_name": "a", "engine": "hive"}),
        ("delete_table_column_statistics", {"db_name": db, "tbl_name": "nope", "col_name": "a", "engine": "hive"}),
        ("get_table_statistics_req", of_table("t", list(every))),
        ("delete_partition_column_statistics", {**p, "part_name": "k=1", "col_name": "a", "engine": "hive"}),
        ("get_partitions_statistics_req", of_partitions),
        ("drop_database", {"name": db, "deleteData": True, "cascade": True}),
    ]


SCRIPTS = {
    "statistics": statistics,
    "databases": databases,
    "tables": tables,
    "partitions": partitions,
    "functions": functions,
    "constraints": constraints,
}
