"""More calls that Hive and the embedded metastore are asked: groups of partitions, exchanges, roles, privileges, views.

Job: as scripts.py.
"""

from __future__ import annotations

from typing import Any

from tests.embedded.differential import ELSEWHERE, Step, struct
from tests.embedded.scripts import descriptor, field, partition, request, table

EXTERNAL = {"EXTERNAL": "TRUE"}
_KEYS = [field("p"), field("q", "int")]


def _parted(db: str, name: str, **fields: Any) -> Step:
    values: dict[str, Any] = {"partitionKeys": _KEYS, "parameters": EXTERNAL}
    return "create_table", {"tbl": table(db, name, **(values | fields))}


def _group(db: str, name: str | None, **fields: Any) -> Any:
    return struct("PartitionSpec", dbName=db, tableName=name, **fields)


def _listed(partitions: list[Any]) -> Any:
    return struct("PartitionListComposingSpec", partitions=partitions)


def groups(db: str) -> list[Step]:
    """PartitionSpecs, and parts of partitions."""
    shared = struct(
        "PartitionSpecWithSharedSD",
        sd=descriptor(location=f"{ELSEWHERE}/shared"),
        partitions=[
            struct("PartitionWithoutSD", values=["3", "3"], relativePath="/a", parameters={"k": "v"}),
            struct("PartitionWithoutSD", values=["3", "4"], relativePath="/b"),
        ],
    )
    parts = [
        partition(db, "p1", ["1", "1"], catName="hive"),
        partition(db, "p1", ["1", "2"], catName="hive", parameters={"a": "b", "c": "d"}),
    ]
    where = {"db_name": db, "tbl_name": "p1"}

    def specs(fields: list[str], mode: int | None = None, filters: list[str] | None = None, **more: Any) -> Step:
        projection = struct("GetProjectionsSpec", fieldList=fields, **more)
        chosen = struct("GetPartitionsFilterSpec", filterMode=mode, filters=filters)
        given = {"dbName": db, "tblName": "p1", "projectionSpec": projection, "filterSpec": chosen}
        return "get_partitions_with_specs", {"request": struct("GetPartitionsRequest", **given)}

    def expression(method: str, text: bytes, **more: Any) -> Step:
        return method, request("PartitionsByExprRequest", db, "p1", expr=text, **more)

    return [
        _parted(db, "p1"),
        ("add_partitions_pspec", {"new_parts": []}),
        ("add_partitions_pspec", {"new_parts": [_group(db, "p1", partitionList=_listed(parts))]}),
        ("add_partitions_pspec", {"new_parts": [_group(db, "p1", partitionList=_listed(parts))]}),
        ("add_partitions_pspec", {"new_parts": [_group(db, "P1", sharedSDPartitionSpec=shared)]}),
        ("add_partitions_pspec", {"new_parts": [_group(db, "nope", partitionList=_listed(parts))]}),
        ("add_partitions_pspec", {"new_parts": [_group(db, "p1", partitionList=struct("PartitionListComposingSpec"))]}),
        ("get_partition_names", {**where, "max_parts": -1}),
        ("get_partitions_pspec", {**where, "max_parts": -1}),
        ("get_partitions_pspec", {**where, "max_parts": 1}),
        ("get_partitions_pspec", {"db_name": db, "tbl_name": "nope", "max_parts": -1}),
        ("get_part_specs_by_filter", {**where, "filter": 'p = "1"', "max_parts": -1}),
        ("get_part_specs_by_filter", {**where, "filter": 'z = "1"', "max_parts": -1}),
        specs(["values", "sd.location", "sd.serdeInfo.name"]),
        specs(["values", "parameters"], 0, ["p=1/q=2", "p=9/q=9"]),
        specs(["values", "createTime", "parameters"], 1, ["1", ""], includeParamKeyPattern="a%"),
        specs(["values"], 2, ["q = 1", 'p = "1"']),
        specs(["sd.cols", "values", "lastAccessTime"], excludeParamKeyPattern="%c%"),
        specs(["nope"]),
        specs(["values"], 0, []),
        expression("get_partition_names_req", b"\xff"),
        expression("get_partition_names_req", b"\xff", maxParts=1),
        ("get_partition_names_req", request("PartitionsByExprRequest", db, "nope", expr=b"\xff")),
        ("alter_table", {"dbname": db, "tbl_name": "p1", "new_tbl": _grouping(db)}),
        ("get_partitions_pspec", {**where, "max_parts": 2}),
        ("get_partitions_req", request("PartitionsRequest", db, "p1", includeParamKeyPattern="%a%")),
        ("get_partitions_req", request("PartitionsRequest", db, "p1", skipColumnSchemaForPartition=True)),
        ("drop_database", {"name": db, "deleteData": True, "cascade": True}),
    ]


def login(db: str) -> list[Step]:
    """Who a client is; Hive 4.2 does not answer a second such call on a connection."""
    return [("set_ugi", {"user_name": "etl", "group_names": ["etl", "hadoop"]}), ("get_databases", {"pattern": db})]


def blank_names(db: str) -> list[Step]:
    """Requests whose names are blank: they are refused before the table is looked for."""
    blanks: list[dict[str, Any]] = [
        {"catName": " "},
        {"dbName": ""},
        {"tblName": " "},
        {"catName": "", "dbName": ""},
        {"dbName": "", "tblName": ""},
        {"catName": "", "tblName": " "},
        {"tblName": "nope"},
    ]
    given = {"dbName": db, "tblName": "p1", "expr": b"\xff"}
    return [
        _parted(db, "p1"),
        *(
            ("get_partition_names_req", {"req": struct("PartitionsByExprRequest", **(given | blank))})
            for blank in blanks
        ),
    ]


def _grouping(db: str) -> Any:
    parameters = {**EXTERNAL, "hive.hcatalog.partition.spec.grouping.enabled": "true"}
    return table(db, "p1", partitionKeys=_KEYS, parameters=parameters, sd=descriptor(location=ELSEWHERE))


def exchanges(db: str) -> list[Step]:
    def exchange(method: str, spec: dict[str, str], source: str = "p1", target: str = "p2") -> Step:
        places = {"source_db": db, "source_table_name": source, "dest_db": db, "dest_table_name": target}
        return method, {"partitionSpecs": spec, **places}

    parts = [partition(db, "p1", [p, q]) for p, q in (("1", "1"), ("1", "2"), ("2", "1"))]
    return [
        _parted(db, "p1"),
        _parted(db, "p2"),
        _parted(db, "p3", sd=descriptor([field("other")])),
        ("add_partitions", {"new_parts": parts}),
        exchange("exchange_partitions", {"p": "1", "q": "1"}),
        exchange("exchange_partitions", {"p": "1", "q": "1"}),
        exchange("exchange_partition", {"p": "1", "q": "2"}),
        exchange("exchange_partitions", {"p": "9"}),
        exchange("exchange_partitions", {"p": "2"}, target="p3"),
        exchange("exchange_partitions", {"p": "2"}, source="nope"),
        exchange("exchange_partitions", {"p": "2"}, target="nope"),
        exchange("exchange_partitions", {"p": "2", "q": ""}),
        ("get_partitions", {"db_name": db, "tbl_name": "p1", "max_parts": -1}),
        ("get_partitions", {"db_name": db, "tbl_name": "p2", "max_parts": -1}),
        ("add_partition", {"new_part": partition(db, "p1", ["1", "1"])}),
        exchange("exchange_partitions", {"p": "1", "q": "1"}),
        ("drop_database", {"name": db, "deleteData": True, "cascade": True}),
    ]


def filters_of_tables(db: str) -> list[Step]:
    def named(text: str | None, limit: int = -1, database: str | None = None) -> Step:
        return "get_table_names_by_filter", {"dbname": database or db, "filter": text, "max_tables": limit}

    owner, access = "hive_filter_field_owner__", "hive_filter_field_last_access__"
    parameter = "hive_filter_field_params__"
    made = [
        (
            "create_table",
            {"tbl": table(db, f"t{n}", owner=who, lastAccessTime=n, parameters={**EXTERNAL, "Key": f"v{n}"})},
        )
        for n, who in enumerate(("anna", "Ben", "anna", None))
    ]
    return [
        *made,
        named(f'{owner} = "anna" and {access} > 1'),
        named(f'{owner} like "B.*"'),
        named(f'{parameter}Key = "v1"'),
        named(f'{parameter}Key <> "v1" and {access} < 2'),
        named(f'{parameter}key = "v1"'),
        named('hive_filter_field_tableName__ = "t3"'),
        named(f'hive_filter_field_tableType__ = "EXTERNAL_TABLE" and {owner} = "Ben"'),
        named('nothing = "t3"'),
        named(f'{owner} = "anna"', 0),
        named(f'{owner} = "anna"', database="nodb"),
        named('nothing = "t3"', database="nodb"),
        named(None),
        named(f'{owner} = "anna"', database="@hive#"),
        ("drop_database", {"name": db, "deleteData": True, "cascade": True}),
    ]


_USER, _ROLE, _GROUP = 1, 2, 3


def roles(db: str) -> list[Step]:
    one, two = f"{db}_one", f"{db}_two"

    def grant(role: str, name: str, kind: int, option: bool = False) -> Step:
        given = {"principal_name": name, "principal_type": kind, "grantor": "boss", "grantorType": _USER}
        return "grant_role", {"role_name": role, **given, "grant_option": option}

    def change(kind: int, role: str, name: str, option: bool | None = None) -> Step:
        given = {"roleName": role, "principalName": name, "grantor": "boss", "grantOption": option}
        asked = struct("GrantRevokeRoleRequest", requestType=kind, principalType=_USER, grantorType=_USER, **given)
        return "grant_revoke_role", {"request": asked}

    def member(name: str, kind: int = _USER) -> Step:
        asked = struct("GetRoleGrantsForPrincipalRequest", principal_name=name, principal_type=kind)
        return "get_role_grants_for_principal", {"request": asked}

    who = f"{db}_me"
    return [
        ("create_role", {"role": struct("Role", roleName=one, ownerName="me")}),
        ("create_role", {"role": struct("Role", roleName=one, ownerName="me")}),
        ("create_role", {"role": struct("Role", roleName="public", ownerName="me")}),
        ("create_role", {"role": struct("Role", roleName=two, ownerName="me")}),
        grant(one, who, _USER, option=True),
        grant(one, who, _USER),
        grant("norole", who, _USER),
        grant("public", who, _USER),
        grant(two, one, _ROLE),
        grant(one, two, _ROLE),
        grant(two, "norole", _ROLE),
        ("list_roles", {"principal_name": who, "principal_type": _USER}),
        ("list_roles", {"principal_name": one, "principal_type": _ROLE}),
        member(who),
        member(one, _ROLE),
        ("get_principals_in_role", {"request": struct("GetPrincipalsInRoleRequest", roleName=one)}),
        ("get_principals_in_role", {"request": struct("GetPrincipalsInRoleRequest", roleName="norole")}),
        change(2, one, who, option=True),
        change(2, one, who, option=True),
        member(who),
        change(2, one, who),
        change(1, two, who, option=True),
        member(who),
        ("revoke_role", {"role_name": "public", "principal_name": who, "principal_type": _USER}),
        ("drop_role", {"role_name": "public"}),
        ("drop_role", {"role_name": one}),
        ("drop_role", {"role_name": two}),
        ("drop_role", {"role_name": "norole"}),
        ("drop_database", {"name": db, "deleteData": True, "cascade": True}),
    ]


_GLOBAL, _DATABASE, _TABLE, _PARTITION, _COLUMN = 1, 2, 3, 4, 5


def privileges(db: str) -> list[Step]:
    def ref(kind: int | None, **fields: Any) -> Any:
        return struct("HiveObjectRef", objectType=kind, **fields)

    on_table = ref(_TABLE, dbName=db, objectName="p1")
    on_part = ref(_PARTITION, dbName=db, objectName="p1", partValues=["1", "1"])
    on_column = ref(_COLUMN, dbName=db, objectName="p1", columnName="a")
    who = f"{db}_me"

    def bag(target: Any, text: str, option: bool = False, name: str = who, kind: int = _USER) -> Any:
        info = struct(
            "PrivilegeGrantInfo", privilege=text, createTime=0, grantor="boss", grantorType=_USER, grantOption=option
        )
        given = {"principalName": name, "principalType": kind, "grantInfo": info, "authorizer": "SQL"}
        return struct("PrivilegeBag", privileges=[struct("HiveObjectPrivilege", hiveObject=target, **given)])

    def listed(target: Any, name: str | None = who) -> Step:
        return "list_privileges", {"principal_name": name, "principal_type": _USER, "hiveObject": target}

    def allowed(target: Any) -> Step:
        return "get_privilege_set", {"hiveObject": target, "user_name": who, "group_names": ["g1"]}

    def change(kind: int, given: Any, option: bool | None = None) -> Step:
        asked = struct("GrantRevokePrivilegeRequest", requestType=kind, privileges=given, revokeGrantOption=option)
        return "grant_revoke_privileges", {"request": asked}

    here = {"db_name": db, "tbl_name": "p1"}
    places = (on_table, on_part, on_column, ref(_DATABASE, dbName=db), ref(_GLOBAL))
    refreshed = struct("GrantRevokePrivilegeRequest", requestType=1, privileges=bag(on_table, "DELETE"))
    return [
        _parted(db, "p1", parameters={**EXTERNAL, "PARTITION_LEVEL_PRIVILEGE": "TRUE"}),
        ("grant_privileges", {"privileges": bag(on_table, "SELECT,INSERT", option=True)}),
        ("add_partition", {"new_part": partition(db, "p1", ["1", "1"])}),
        listed(on_part),
        ("grant_privileges", {"privileges": bag(on_table, "SELECT")}),
        ("grant_privileges", {"privileges": bag(ref(_TABLE, dbName=db, objectName="nope"), "SELECT")}),
        ("grant_privileges", {"privileges": bag(on_table, "SELECT", name="norole", kind=_ROLE)}),
        *[("grant_privileges", {"privileges": bag(place, "ALTER")}) for place in places],
        *[listed(place) for place in places],
        *[allowed(place) for place in places],
        listed(on_table, None),
        listed(ref(_TABLE, dbName=db, objectName="nope")),
        (
            "get_partition_with_auth",
            {**here, "part_vals": ["1", "1"], "user_name": who, "group_names": ["g1"]},
        ),
        (
            "get_partitions_ps_with_auth",
            {**here, "part_vals": ["1"], "max_parts": -1, "user_name": who, "group_names": ["g"]},
        ),
        change(2, bag(on_table, "INSERT"), option=True),
        change(2, bag(on_table, "INSERT"), option=True),
        change(2, bag(on_table, "DROP")),
        change(2, bag(on_table, "INSERT")),
        *[("revoke_privileges", {"privileges": bag(place, "ALTER")}) for place in places],
        *[("revoke_privileges", {"privileges": bag(place, "ALTER")}) for place in places],
        listed(on_table),
        ("refresh_privileges", {"objToRefresh": on_table, "authorizer": "SQL", "grantRequest": refreshed}),
        listed(on_table),
        ("drop_database", {"name": db, "deleteData": True, "cascade": True}),
    ]


def small_things(db: str) -> list[Step]:
    """Types, marks of partitions, functions by request, statistics of some of the partitions."""
    kind = f"{db}_type"
    mark = {"db_name": db, "tbl_name": "p1", "eventType": 1}
    stats = struct("LongColumnStatsData", lowValue=1, highValue=9, numNulls=2, numDVs=3)

    def described(part: str, low: int) -> Any:
        place = struct(
            "ColumnStatisticsDesc", isTblLevel=False, dbName=db, tableName="p1", partName=part, catName="hive"
        )
        data = struct("LongColumnStatsData", **{**stats.__dict__, "lowValue": low})
        value = struct("ColumnStatisticsData", longStats=data)
        column = struct("ColumnStatisticsObj", colName="a", colType="int", statsData=value)
        return {"stats_obj": struct("ColumnStatistics", statsDesc=place, statsObj=[column])}

    def added_up(*parts: str) -> Step:
        asked = {"dbName": db, "tblName": "p1", "colNames": ["a"], "partNames": list(parts), "engine": "hive"}
        return "get_aggr_stats_for", {"request": struct("PartitionsStatsRequest", **asked)}

    def functions(**fields: Any) -> Step:
        return "get_functions_req", {"request": struct("GetFunctionsRequest", dbName=db, **fields)}

    made = {"functionName": "f1", "dbName": db, "className": "c", "ownerName": "me", "ownerType": 1, "functionType": 1}
    function = struct("Function", **made)
    return [
        ("create_type", {"type": struct("Type", name=kind, fields=[field("x", "int")])}),
        ("create_type", {"type": struct("Type", name=kind)}),
        ("create_type", {"type": struct("Type", name="a b")}),
        ("get_type", {"name": kind}),
        ("drop_type", {"type": kind}),
        ("get_type", {"name": kind}),
        ("get_type_all", {"name": kind}),
        _parted(db, "p1"),
        ("isPartitionMarkedForEvent", {**mark, "part_vals": {"p": "1", "q": "2"}}),
        ("markPartitionForEvent", {**mark, "part_vals": {"p": "1", "q": "2"}}),
        ("isPartitionMarkedForEvent", {**mark, "part_vals": {"p": "1", "q": "2"}}),
        ("isPartitionMarkedForEvent", {**mark, "part_vals": {"p": "1"}}),
        ("isPartitionMarkedForEvent", {**mark, "part_vals": {"p": "1", "z": "2"}}),
        ("isPartitionMarkedForEvent", {**mark, "tbl_name": "nope", "part_vals": {}}),
        ("create_function", {"func": function}),
        functions(),
        functions(pattern="F*", returnNames=True),
        functions(pattern="x*"),
        functions(returnNames=False),
        ("add_partitions", {"new_parts": [partition(db, "p1", ["1", str(q)]) for q in (1, 2, 3)]}),
        ("update_partition_column_statistics", described("p=1/q=1", 5)),
        ("update_partition_column_statistics", described("p=1/q=2", 7)),
        added_up("p=1/q=1", "p=1/q=2"),
        added_up("p=1/q=1"),
        added_up("p=9/q=9"),
        added_up(),
        ("drop_database", {"name": db, "deleteData": True, "cascade": True}),
    ]


def tables_without_places(db: str) -> list[Step]:
    """Altered to none and to an empty one, which is refused only where files are to be counted."""
    steps: list[Step] = []
    external = {"EXTERNAL": "TRUE"}
    unasked = {"DO_NOT_UPDATE_STATS": "true"}
    for number, extra in enumerate(({}, unasked)):
        for keys in ([], [field("p")]):
            name = f"t{number}{len(keys)}"

            def altered(
                where: str | None, new: str = name, old: str = name, keys: Any = keys, **fields: Any
            ) -> dict[str, Any]:
                given = table(db, new, partitionKeys=keys, sd=descriptor(location=where), **fields)
                return {"dbname": db, "tbl_name": old, "new_tbl": given}

            read = ("get_table_req", request("GetTableRequest", db, name))
            silent = struct("EnvironmentContext", properties=unasked)
            context = "alter_table_with_environment_context"
            steps += [
                ("create_table", {"tbl": table(db, name, partitionKeys=keys, parameters=external | extra)}),
                ("alter_table", altered(None, parameters=external | extra | {"x": "y"})),
                read,
                ("alter_table", altered("", parameters=external)),
                read,
                (context, {**altered(None, parameters=external | extra), "environment_context": silent}),
                read,
                ("alter_table", altered(None, f"{name}_renamed", parameters=external | extra)),
                ("get_table_req", request("GetTableRequest", db, f"{name}_renamed")),
                ("drop_table", {"dbname": db, "name": f"{name}_renamed", "deleteData": True}),
            ]
    return [*steps, ("drop_database", {"name": db, "deleteData": True, "cascade": True})]


def renamed(db: str) -> list[Step]:
    """Partitions of tables that were made as managed ones move when they are renamed; of external ones they stay."""
    steps: list[Step] = []
    outside = {"EXTERNAL": "TRUE"}
    cases: dict[str, dict[str, Any]] = {
        "made": {"tableType": "MANAGED_TABLE"},
        "told": {"parameters": {**outside, "TRANSLATED_TO_EXTERNAL": "TRUE"}},
        "purged": {"parameters": {**outside, "external.table.purge": "TRUE"}},
        "outside": {"parameters": outside},
    }
    for name, fields in cases.items():

        def rename(to: str, place: str | None, name: str = name) -> Step:
            after = partition(db, name, [to], sd=descriptor(location=place))
            return "rename_partition", {"db_name": db, "tbl_name": name, "part_vals": ["1"], "new_part": after}

        of = {"db_name": db, "tbl_name": name}
        steps += [
            ("create_table", {"tbl": table(db, name, partitionKeys=[field("p")], **fields)}),
            ("add_partition", {"new_part": partition(db, name, ["1"])}),
            rename("2", None),
            rename("3", "file:/no/such/place"),
            *(("get_partition", {**of, "part_vals": [value]}) for value in ("1", "2", "3")),
        ]
    buckets = descriptor([field("a"), field("b")], bucketCols=["a"], numBuckets=2)
    other = descriptor([field("x"), field("b")], ELSEWHERE, bucketCols=["a"], numBuckets=2)
    connector = struct("DataConnector", name=f"{db}_dc", type="mysql", url="jdbc:mysql://h/d")
    name = f"{db}_dc"
    return [
        *steps,
        ("create_table", {"tbl": table(db, "b", sd=buckets, parameters=outside)}),
        ("alter_table", {"dbname": db, "tbl_name": "b", "new_tbl": table(db, "b", sd=other, parameters=outside)}),
        ("create_dataconnector_req", {"connectorReq": struct("CreateDataConnectorRequest", connector=connector)}),
        ("get_dataconnector_req", {"request": struct("GetDataConnectorRequest", connectorName=name)}),
        ("drop_dataconnector_req", {"dropDcReq": struct("DropDataConnectorRequest", connectorName=name)}),
    ]


MORE_SCRIPTS = {
    "renamed": renamed,
    "tables_without_places": tables_without_places,
    "groups": groups,
    "login": login,
    "blank_names": blank_names,
    "exchanges": exchanges,
    "filters_of_tables": filters_of_tables,
    "roles": roles,
    "privileges": privileges,
    "small_things": small_things,
}
