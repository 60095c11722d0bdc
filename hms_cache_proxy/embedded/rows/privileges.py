"""Roles and privileges: ROLES, ROLE_MAP, and the *_PRIVS tables.

Job: turn rows into structs and back; the members of roles. Must not know: what a call may do; whether privileges are
enforced (here they are not). A privilege has a scope, an owner (the id of a database, table or partition, the name of a
connector, None for the whole metastore) and, for columns, a column. Source: ObjectStore of Hive 4.0. Owner: the thread
of a call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from sqlalchemy import delete, insert, select, update

from hms_cache_proxy.embedded.call import Call
from hms_cache_proxy.embedded.database import new_ids
from hms_cache_proxy.embedded.rows.databases import OWNER_TYPES, owner_type_name
from hms_cache_proxy.embedded.schema import T
from hms_cache_proxy.embedded.values import new
from hms_cache_proxy.wire.spec import Struct

PUBLIC = "public"
USER, ROLE, GROUP = "USER", "ROLE", "GROUP"


class PrivilegeScope(Enum):
    """The kind of object of a privilege: the table of such privileges, its key, model, privilege and owner column."""

    GLOBAL = ("GLOBAL_PRIVS", "USER_GRANT_ID", "MGlobalPrivilege", "USER_PRIV", None)
    DATABASE = ("DB_PRIVS", "DB_GRANT_ID", "MDBPrivilege", "DB_PRIV", "DB_ID")
    CONNECTOR = ("DC_PRIVS", "DC_GRANT_ID", "MDCPrivilege", "DC_PRIV", "NAME")
    TABLE = ("TBL_PRIVS", "TBL_GRANT_ID", "MTablePrivilege", "TBL_PRIV", "TBL_ID")
    PARTITION = ("PART_PRIVS", "PART_GRANT_ID", "MPartitionPrivilege", "PART_PRIV", "PART_ID")
    TABLE_COLUMN = ("TBL_COL_PRIVS", "TBL_COLUMN_GRANT_ID", "MTableColumnPrivilege", "TBL_COL_PRIV", "TBL_ID")
    PARTITION_COLUMN = (
        "PART_COL_PRIVS",
        "PART_COLUMN_GRANT_ID",
        "MPartitionColumnPrivilege",
        "PART_COL_PRIV",
        "PART_ID",
    )

    @property
    def table(self) -> Any:
        """The Core table (hence Any)."""
        return getattr(T, self.value[0])

    @property
    def of_columns(self) -> bool:
        """Are these privileges on columns?"""
        return self in (PrivilegeScope.TABLE_COLUMN, PrivilegeScope.PARTITION_COLUMN)


@dataclass(frozen=True, slots=True)
class PrivilegeTarget:
    """The object, or its column, of privileges. `owner`, its key, is None if there is no such object."""

    scope: PrivilegeScope
    owner: Any = None
    column: str | None = None
    part_name: str | None = None

    @property
    def there(self) -> bool:
        """Does it exist?"""
        return self.owner is not None or self.scope is PrivilegeScope.GLOBAL


@dataclass(frozen=True, slots=True)
class Grant:
    """A stored privilege."""

    grant_id: int
    owner: Any
    column: str | None
    principal: str
    principal_type: str
    privilege: str
    create_time: int
    grantor: str | None
    grantor_type: str | None
    grant_option: bool
    authorizer: str | None

    def info(self) -> Struct:
        """PrivilegeGrantInfo."""
        return new(
            "PrivilegeGrantInfo",
            privilege=self.privilege,
            createTime=self.create_time,
            grantor=self.grantor,
            grantorType=OWNER_TYPES.get(self.grantor_type or ""),
            grantOption=self.grant_option,
        )


def grants(
    call: Call,
    scope: PrivilegeScope,
    *,
    owners: Sequence[Any] | None = None,
    column: str | None = None,
    principal: tuple[str, str] | None = None,
    authorizer: str | None = None,
) -> list[Grant]:
    """Privileges of a scope, in the order in which they were granted. `principal`: (name, type)."""
    table = scope.table
    _, key, _, privilege, owner = scope.value
    columns = table.c
    query = select(table).order_by(columns[key])
    if owners is not None:
        query = query.where(columns[owner].in_(list(owners)))
    if column is not None:
        query = query.where(columns.COLUMN_NAME == column)
    if principal is not None:
        query = query.where(columns.PRINCIPAL_NAME == principal[0], columns.PRINCIPAL_TYPE == principal[1])
    if authorizer is not None:
        query = query.where(columns.AUTHORIZER == authorizer)
    return [
        Grant(
            grant_id=row[key],
            owner=None if owner is None else row[owner],
            column=row["COLUMN_NAME"] if scope.of_columns else None,
            principal=row["PRINCIPAL_NAME"],
            principal_type=row["PRINCIPAL_TYPE"],
            privilege=row[privilege],
            create_time=row["CREATE_TIME"],
            grantor=row["GRANTOR"],
            grantor_type=row["GRANTOR_TYPE"],
            grant_option=bool(row["GRANT_OPTION"]),
            authorizer=row["AUTHORIZER"],
        )
        for row in call.connection.execute(query).mappings()
    ]


def grant(
    call: Call,
    target: PrivilegeTarget,
    principal: tuple[str, str],
    info: Struct,
    privileges: Iterable[str],
    authorizer: str | None,
) -> None:
    """Insert a row for each privilege; `info` has the grantor."""
    wanted = list(privileges)
    if not wanted:
        return
    _, key, model, privilege, owner_column = target.scope.value
    first = new_ids(call.connection, model, len(wanted))
    common = {
        "CREATE_TIME": call.now,
        "GRANT_OPTION": int(bool(info.grantOption)),
        "GRANTOR": info.grantor,
        "GRANTOR_TYPE": owner_type_name(info.grantorType),
        "PRINCIPAL_NAME": principal[0],
        "PRINCIPAL_TYPE": principal[1],
        "AUTHORIZER": authorizer,
    }
    if owner_column is not None:
        common[owner_column] = target.owner
    if target.scope.of_columns:
        common["COLUMN_NAME"] = target.column
    rows = [{key: first + number, privilege: name, **common} for number, name in enumerate(wanted)]
    call.execute(insert(target.scope.table), rows)


def revoke(call: Call, scope: PrivilegeScope, ids: Sequence[int]) -> None:
    """Delete privileges."""
    call.execute(delete(scope.table).where(scope.table.c[scope.value[1]].in_(list(ids))))


def revoke_grant_option(call: Call, scope: PrivilegeScope, ids: Sequence[int]) -> None:
    """Remove the grant option."""
    call.execute(update(scope.table).where(scope.table.c[scope.value[1]].in_(list(ids))).values(GRANT_OPTION=0))


def privilege_set(
    call: Call, scope: PrivilegeScope, owner: Any, column: str | None, user: str | None, groups: Sequence[str] | None
) -> Struct:
    """PrincipalPrivilegeSet of one object: what a user, its groups and their roles may do."""

    def of(name: str, kind: str) -> list[Struct]:
        owners = None if scope is PrivilegeScope.GLOBAL else [owner]
        return [each.info() for each in grants(call, scope, owners=owners, column=column, principal=(name, kind))]

    found = new("PrincipalPrivilegeSet")
    if scope is PrivilegeScope.GLOBAL:  # it lists only principals with privileges, and no roles
        mine = of(user, USER) if user is not None else []
        found.userPrivileges = {user: mine} if mine else None
        if groups:
            found.groupPrivileges = {name: some for name in groups if (some := of(name, GROUP))}
        return found
    if user is not None:
        found.userPrivileges = {user: of(user, USER)}
    if groups:
        found.groupPrivileges = {name: of(name, GROUP) for name in groups}
    roles = roles_in_hierarchy(call, user, groups)
    if roles:
        found.rolePrivileges = {name: of(name, ROLE) for name in roles}
    return found


def insert_set(call: Call, scope: PrivilegeScope, owner: Any, privileges: Struct | None) -> None:
    """Insert the privileges in the struct of a new table or partition."""
    if privileges is None:
        return
    for kind, some in (
        (USER, privileges.userPrivileges),
        (GROUP, privileges.groupPrivileges),
        (ROLE, privileges.rolePrivileges),
    ):
        for name, infos in (some or {}).items():
            for info in infos or ():
                grant(call, PrivilegeTarget(scope, owner), (name, kind), info, [info.privilege], "SQL")


def find_role(call: Call, name: str) -> tuple[int, Struct] | None:
    """(id, Role)."""
    row = call.execute(select(T.ROLES).where(T.ROLES.c.ROLE_NAME == name)).first()
    return None if row is None else (row.ROLE_ID, _role(row))


def _role(row: Any) -> Struct:
    return new("Role", roleName=row.ROLE_NAME, createTime=row.CREATE_TIME, ownerName=row.OWNER_NAME)


def role_names(call: Call) -> list[str]:
    """The names of all roles."""
    return [row[0] for row in call.execute(select(T.ROLES.c.ROLE_NAME).order_by(T.ROLES.c.ROLE_ID))]


def insert_role(call: Call, name: str, owner: str | None) -> None:
    """Insert a role."""
    row = {"ROLE_ID": new_ids(call.connection, "MRole"), "CREATE_TIME": call.now}
    call.execute(insert(T.ROLES), {**row, "OWNER_NAME": owner, "ROLE_NAME": name})


def delete_role(call: Call, role_id: int, name: str) -> None:
    """Delete a role, its memberships and its privileges."""
    members = T.ROLE_MAP.c
    mine = (members.PRINCIPAL_NAME == name) & (members.PRINCIPAL_TYPE == ROLE)
    call.execute(delete(T.ROLE_MAP).where((members.ROLE_ID == role_id) | mine))
    for scope in PrivilegeScope:
        columns = scope.table.c
        call.execute(delete(scope.table).where(columns.PRINCIPAL_NAME == name, columns.PRINCIPAL_TYPE == ROLE))
    call.execute(delete(T.ROLES).where(T.ROLES.c.ROLE_ID == role_id))


def memberships(
    call: Call, *, principal: tuple[str, str] | None = None, role: str | None = None
) -> list[tuple[int, Struct, Struct]]:
    """(id, Role, RolePrincipalGrant) of a principal (name, type), or of a role's members."""
    members = T.ROLE_MAP.c
    query = select(T.ROLE_MAP, T.ROLES).join(T.ROLES, T.ROLES.c.ROLE_ID == members.ROLE_ID)
    query = query.order_by(members.ROLE_GRANT_ID)
    if principal is not None:
        query = query.where(members.PRINCIPAL_NAME == principal[0], members.PRINCIPAL_TYPE == principal[1])
    if role is not None:
        query = query.where(T.ROLES.c.ROLE_NAME == role)
    return [
        (
            row.ROLE_GRANT_ID,
            _role(row),
            new(
                "RolePrincipalGrant",
                roleName=row.ROLE_NAME,
                principalName=row.PRINCIPAL_NAME,
                principalType=OWNER_TYPES[row.PRINCIPAL_TYPE],
                grantOption=bool(row.GRANT_OPTION),
                grantTime=row.ADD_TIME,
                grantorName=row.GRANTOR,
                grantorPrincipalType=OWNER_TYPES.get(row.GRANTOR_TYPE),
            ),
        )
        for row in call.execute(query)
    ]


def insert_membership(call: Call, role_id: int, given: Struct) -> None:
    """Give a principal a role; `given` is a RolePrincipalGrant."""
    row = {
        "ROLE_GRANT_ID": new_ids(call.connection, "MRoleMap"),
        "ADD_TIME": call.now,
        "GRANT_OPTION": int(bool(given.grantOption)),
        "GRANTOR": given.grantorName,
        "GRANTOR_TYPE": owner_type_name(given.grantorPrincipalType),
        "PRINCIPAL_NAME": given.principalName,
        "PRINCIPAL_TYPE": owner_type_name(given.principalType),
        "ROLE_ID": role_id,
    }
    call.execute(insert(T.ROLE_MAP), row)


def delete_membership(call: Call, id_: int) -> None:
    """Delete a membership."""
    call.execute(delete(T.ROLE_MAP).where(T.ROLE_MAP.c.ROLE_GRANT_ID == id_))


def delete_admin_option(call: Call, id_: int) -> None:
    """Remove the admin option of a membership."""
    call.execute(update(T.ROLE_MAP).where(T.ROLE_MAP.c.ROLE_GRANT_ID == id_).values(GRANT_OPTION=0))


def roles_in_hierarchy(call: Call, user: str | None, groups: Sequence[str] | None) -> list[str]:
    """Roles of a user and its groups, those that these roles have, and so on; every user has the role `public`."""
    open_ones: list[str] = []
    if user is not None:
        open_ones += [role.roleName for _, role, _ in memberships(call, principal=(user, USER))] + [PUBLIC]
    for group in groups or ():
        open_ones += [role.roleName for _, role, _ in memberships(call, principal=(group, GROUP))]
    found: list[str] = []
    while open_ones:
        name = open_ones.pop(0)
        if name not in found:
            found.append(name)
            open_ones += [role.roleName for _, role, _ in memberships(call, principal=(name, ROLE))]
    return found


def copy_to_partitions(call: Call, table_id: int, partition_ids: Sequence[int]) -> None:
    """Give new partitions the privileges of their table (`PARTITION_LEVEL_PRIVILEGE`)."""
    pairs = (
        (PrivilegeScope.TABLE, PrivilegeScope.PARTITION),
        (PrivilegeScope.TABLE_COLUMN, PrivilegeScope.PARTITION_COLUMN),
    )
    for source, copied in pairs:
        for each in grants(call, source, owners=[table_id]):
            principal = (each.principal, each.principal_type)
            for partition_id in partition_ids:
                target = PrivilegeTarget(copied, partition_id, each.column)
                grant(call, target, principal, each.info(), [each.privilege], each.authorizer)
