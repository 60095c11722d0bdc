"""Privileges: who may do what with which object. They are stored, never enforced.

Job: carry out the calls; rows/privileges.py has the rows. Source: HMSHandler and ObjectStore of 4.0. Owner: the thread
of a call.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select

from hms_cache_proxy.embedded import names
from hms_cache_proxy.embedded.call import Call, reads, writes
from hms_cache_proxy.embedded.failures import internal, meta
from hms_cache_proxy.embedded.handlers.roles import GRANT, REVOKE, got, must_be_a_role
from hms_cache_proxy.embedded.rows import databases as database_rows
from hms_cache_proxy.embedded.rows import partitions as partition_rows
from hms_cache_proxy.embedded.rows import privileges as rows
from hms_cache_proxy.embedded.rows import tables as table_rows
from hms_cache_proxy.embedded.rows.databases import OWNER_TYPES, owner_type_name
from hms_cache_proxy.embedded.rows.privileges import ROLE, Grant, PrivilegeScope, PrivilegeTarget
from hms_cache_proxy.embedded.schema import T
from hms_cache_proxy.embedded.values import as_json, copy, new
from hms_cache_proxy.wire.facts import enum
from hms_cache_proxy.wire.spec import Struct

_TYPES = {member.name: int(member) for member in enum("HiveObjectType")}
_OTHER_SCOPES = {
    _TYPES["GLOBAL"]: PrivilegeScope.GLOBAL,
    _TYPES["DATABASE"]: PrivilegeScope.DATABASE,
    _TYPES["DATACONNECTOR"]: PrivilegeScope.CONNECTOR,
    _TYPES["TABLE"]: PrivilegeScope.TABLE,
    _TYPES["PARTITION"]: PrivilegeScope.PARTITION,
}


def _scope(ref: Struct) -> PrivilegeScope:
    if ref.objectType == _TYPES["COLUMN"]:
        return PrivilegeScope.PARTITION_COLUMN if ref.partValues else PrivilegeScope.TABLE_COLUMN
    return _OTHER_SCOPES[ref.objectType]


def _target(call: Call, ref: Struct) -> PrivilegeTarget:
    scope = _scope(ref)
    if scope is PrivilegeScope.GLOBAL:
        return PrivilegeTarget(scope)
    if scope is PrivilegeScope.CONNECTOR:
        found = call.execute(select(T.DATACONNECTORS.c.NAME).where(T.DATACONNECTORS.c.NAME == ref.objectName)).scalar()
        return PrivilegeTarget(scope, found)
    catalog = names.fold(ref.catName) if ref.catName else names.DEFAULT_CATALOG
    database = names.fold(ref.dbName)
    if scope is PrivilegeScope.DATABASE:
        one = database_rows.find_database(call, catalog, database)
        return PrivilegeTarget(scope, None if one is None else one[0])
    row = table_rows.find_table(call, catalog, database, names.fold(ref.objectName))
    column = ref.columnName if scope.of_columns else None
    if row is None:
        return PrivilegeTarget(scope, None, column)
    if scope in (PrivilegeScope.TABLE, PrivilegeScope.TABLE_COLUMN):
        return PrivilegeTarget(scope, row.table_id, column)
    name = names.partition_name(row.table.partitionKeys, ref.partValues or [])
    parts = partition_rows.find(call, row, names=[name])
    return PrivilegeTarget(scope, parts[0].partition_id if parts else None, column, name)


def grant_privileges(call: Call, args: Struct) -> bool:
    """Grant all privileges of a bag."""
    if args.privileges is None:
        raise meta("java.lang.NullPointerException: there are no privileges")
    _grant(call, args.privileges.privileges or [])
    return True


def revoke_privileges(call: Call, args: Struct) -> bool:
    """Revoke all privileges of a bag."""
    _revoke(call, args.privileges.privileges or [], option=False)
    return True


def grant_revoke_privileges(call: Call, args: Struct) -> Struct:
    """Grant or revoke, by request."""
    request = args.request
    if request.requestType == GRANT:
        _grant(call, request.privileges.privileges or [])
    elif request.requestType == REVOKE:
        _revoke(call, request.privileges.privileges or [], option=bool(request.revokeGrantOption))
    else:
        raise meta(f"Unknown request type {request.requestType}")
    return new("GrantRevokePrivilegeResponse", success=True)


def _grant(call: Call, bag: Sequence[Struct]) -> None:
    for given in bag:
        principal = (given.principalName, owner_type_name(given.principalType) or "")
        if principal[1] == ROLE:
            must_be_a_role(call, principal[0])
        ref, info = given.hiveObject, given.grantInfo
        target = _target(call, ref)
        if not target.there:
            if target.scope is PrivilegeScope.DATABASE:
                raise got(
                    "NoSuchObjectException", f"There is no database {ref.catName or names.DEFAULT_CATALOG}.{ref.dbName}"
                )
            continue  # as in Hive
        wanted = info.privilege.split(",")
        for known in _of(call, target, principal, given.authorizer):
            if (known.grantor or "").lower() == (info.grantor or "").lower() and known.privilege in wanted:
                text = f"{known.privilege} is already granted {_described(ref, target)}by {info.grantor}"
                raise got("InvalidObjectException", text)
        rows.grant(call, target, principal, info, wanted, given.authorizer)


def _of(call: Call, target: PrivilegeTarget, principal: tuple[str, str], authorizer: str | None = None) -> list[Grant]:
    owners = None if target.scope is PrivilegeScope.GLOBAL else [target.owner]
    return rows.grants(
        call, target.scope, owners=owners, column=target.column, principal=principal, authorizer=authorizer
    )


def _described(ref: Struct, target: PrivilegeTarget) -> str:
    partition = f"[{ref.dbName},{ref.objectName},{target.part_name}]"
    return {
        PrivilegeScope.GLOBAL: "",
        PrivilegeScope.DATABASE: f"on database {ref.dbName} ",
        PrivilegeScope.CONNECTOR: f"on data connector {ref.dbName} ",
        PrivilegeScope.TABLE: f"on table [{ref.dbName},{ref.objectName}] ",
        PrivilegeScope.PARTITION: f"on partition {partition} ",
        PrivilegeScope.TABLE_COLUMN: f"on column {ref.columnName} [{ref.dbName},{ref.objectName}] ",
        PrivilegeScope.PARTITION_COLUMN: f"on column {ref.columnName} {partition} ",
    }[target.scope]


def _revoke(call: Call, bag: Sequence[Struct], *, option: bool) -> None:
    """Revoke privileges; `option`: only the grant option."""
    for given in bag:
        wanted = [each for each in (given.grantInfo.privilege or "").split(",") if each.strip()]
        if not wanted:
            continue
        principal = (given.principalName, owner_type_name(given.principalType) or "")
        target = _target(call, given.hiveObject)
        known = _of(call, target, principal) if target.there else []
        chosen = []
        for privilege in wanted:
            held = next((each for each in known if each.privilege.lower() == privilege.lower()), None)
            if held is None:
                raise got("InvalidObjectException", _not_granted(given.hiveObject, target, privilege))
            if option and not held.grant_option:
                raise meta(f"User {principal[0]} does not have grant option with privilege {privilege}")
            chosen.append(held.grant_id)
        (rows.revoke_grant_option if option else rows.revoke)(call, target.scope, chosen)


def _not_granted(ref: Struct, target: PrivilegeTarget, privilege: str) -> str:
    if target.scope is PrivilegeScope.GLOBAL:
        return f"No user grant found for privileges {privilege}"
    if target.scope is PrivilegeScope.DATABASE:
        return f"No database grant found for privileges {privilege} on database {ref.dbName}"
    if target.scope is PrivilegeScope.CONNECTOR:
        return f"No dataconnector grant found for privileges {privilege} on data connector {ref.objectName}"
    part = f", partition is {target.part_name}" if target.part_name is not None else ""
    column = f", column name = {target.column}" if target.column is not None else ""
    return f"No grant ({privilege}) found  on table {ref.objectName}{part}{column}, database is {ref.dbName}"


def refresh_privileges(call: Call, args: Struct) -> Struct:
    """Replace the privileges of an object that one authorizer manages by those of a bag."""
    ref = args.objToRefresh
    if ref.objectType not in (_TYPES["DATABASE"], _TYPES["DATACONNECTOR"], _TYPES["TABLE"], _TYPES["COLUMN"]):
        raise meta(f"Unexpected object type {enum('HiveObjectType')(ref.objectType).name}")
    target = _target(call, ref)
    stored = []
    if target.there:
        every = rows.grants(call, target.scope, owners=[target.owner], authorizer=args.authorizer)
        stored = [_told(call, target.scope, each) for each in every]
    before = {_timeless(each): each for each in stored}
    after = {_timeless(each): each for each in args.grantRequest.privileges.privileges or ()}
    _revoke(call, [each for key, each in before.items() if key not in after], option=False)
    _grant(call, [each for key, each in after.items() if key not in before])
    return new("GrantRevokePrivilegeResponse", success=True)


def _timeless(given: Struct) -> str:
    same = copy(given)
    same.grantInfo.createTime = 0
    return as_json(same)


def list_privileges(call: Call, args: Struct) -> list[Struct]:
    """The privileges of a principal (or of all) on an object (or on all)."""
    ref = args.hiveObject
    kind = owner_type_name(args.principal_type)
    principal = None if args.principal_name is None else (args.principal_name, kind or "")
    if ref.objectType is None:
        return [told for scope in PrivilegeScope for told in _listed(call, scope, PrivilegeTarget(scope), principal)]
    scope = _scope(ref)
    whole = ref.objectName is None if scope is PrivilegeScope.CONNECTOR else ref.dbName is None
    if whole or scope is PrivilegeScope.GLOBAL:
        return _listed(call, scope, PrivilegeTarget(scope), principal)
    target = _target(call, ref)
    return _listed(call, scope, target, principal) if target.there else []


def _listed(
    call: Call, scope: PrivilegeScope, target: PrivilegeTarget, principal: tuple[str, str] | None
) -> list[Struct]:
    owners = None if target.owner is None else [target.owner]
    found = rows.grants(call, scope, owners=owners, column=target.column, principal=principal)
    return [_told(call, scope, each) for each in found]


def _told(call: Call, scope: PrivilegeScope, each: Grant) -> Struct:
    return new(
        "HiveObjectPrivilege",
        hiveObject=_ref(call, scope, each),
        principalName=each.principal,
        principalType=OWNER_TYPES.get(each.principal_type),
        grantInfo=each.info(),
        authorizer=each.authorizer,
    )


def _ref(call: Call, scope: PrivilegeScope, each: Grant) -> Struct:
    """The HiveObjectRef of a privilege's object."""
    if scope is PrivilegeScope.GLOBAL:
        return new("HiveObjectRef", objectType=_TYPES["GLOBAL"])
    if scope is PrivilegeScope.CONNECTOR:
        return new("HiveObjectRef", objectType=_TYPES["DATACONNECTOR"], objectName=each.owner)
    if scope is PrivilegeScope.DATABASE:
        catalog, database = table_rows.place(call, each.owner)
        return new("HiveObjectRef", objectType=_TYPES["DATABASE"], dbName=database, catName=catalog)
    table_id, values = each.owner, None
    if scope in (PrivilegeScope.PARTITION, PrivilegeScope.PARTITION_COLUMN):
        partitions = T.PARTITIONS.c
        table_id = call.execute(select(partitions.TBL_ID).where(partitions.PART_ID == each.owner)).scalar_one()
        of_keys = T.PARTITION_KEY_VALS.c
        query = select(of_keys.PART_KEY_VAL).where(of_keys.PART_ID == each.owner).order_by(of_keys.INTEGER_IDX)
        values = [row[0] for row in call.execute(query)]
    (row,) = table_rows.numbered(call, [table_id])
    kind = "COLUMN" if scope.of_columns else scope.name
    return new(
        "HiveObjectRef",
        objectType=_TYPES[kind],
        dbName=row.table.dbName,
        objectName=row.table.tableName,
        partValues=values,
        columnName=each.column,
        catName=row.table.catName,
    )


def get_privilege_set(call: Call, args: Struct) -> Struct:
    """What a user and its groups may do with an object."""
    ref = args.hiveObject
    if ref.objectType is None:
        raise internal("get_privilege_set failed: unknown result")
    target = _target(call, ref)
    owner = target.owner if target.there else -1
    return rows.privilege_set(call, target.scope, owner, target.column, args.user_name, args.group_names)


METHODS = {
    **reads(list_privileges=list_privileges, get_privilege_set=get_privilege_set),
    **writes(
        grant_privileges=grant_privileges,
        revoke_privileges=revoke_privileges,
        grant_revoke_privileges=grant_revoke_privileges,
        refresh_privileges=refresh_privileges,
    ),
}
