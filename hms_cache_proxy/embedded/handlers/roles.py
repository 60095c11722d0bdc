"""Roles: who has them, and who may grant them. They are stored, never enforced.

Job: carry out the calls; rows/privileges.py has the rows. If a call does not declare an exception, it raises a
MetaException that names it, as in Hive. Source: HMSHandler and ObjectStore of 4.0. Owner: the thread of a call.
"""

from __future__ import annotations

from hms_cache_proxy.embedded.call import Call, reads, writes
from hms_cache_proxy.embedded.failures import Failure, meta
from hms_cache_proxy.embedded.rows import privileges as rows
from hms_cache_proxy.embedded.rows.databases import OWNER_TYPES, owner_type_name
from hms_cache_proxy.embedded.rows.privileges import PUBLIC, ROLE, USER
from hms_cache_proxy.embedded.values import new
from hms_cache_proxy.wire.facts import enum
from hms_cache_proxy.wire.spec import Struct

ADMIN = "admin"
GRANT, REVOKE = (int(enum("GrantRevokeType")[name]) for name in ("GRANT", "REVOKE"))
_API = "org.apache.hadoop.hive.metastore.api"


def got(kind: str, message: str) -> Failure:
    """A MetaException that names an exception that these calls do not declare."""
    return meta(f"Got exception: {_API}.{kind} {message}")


def create_role(call: Call, args: Struct) -> bool:
    """Create a role."""
    name = args.role.roleName
    if name == PUBLIC:
        raise meta(f"{PUBLIC} role implicitly exists. It can't be created.")
    if rows.find_role(call, name) is not None:
        raise got("InvalidObjectException", f"Role {name} already exists.")
    rows.insert_role(call, name, args.role.ownerName)
    return True


def drop_role(call: Call, args: Struct) -> bool:
    """Drop a role and everything granted to it; no error if it does not exist."""
    if args.role_name in (ADMIN, PUBLIC):
        raise meta(f"{PUBLIC},{ADMIN} roles can't be dropped.")
    found = rows.find_role(call, args.role_name)
    if found is not None:
        rows.delete_role(call, found[0], args.role_name)
    return True


def get_role_names(call: Call, _args: Struct) -> list[str]:
    """The names of all roles."""
    return rows.role_names(call)


def grant_role(call: Call, args: Struct) -> bool:
    """Grant a role to a principal."""
    principal = (args.principal_name, args.principal_type)
    _grant(call, args.role_name, principal, (args.grantor, args.grantorType), option=args.grant_option)
    return True


def revoke_role(call: Call, args: Struct) -> bool:
    """Revoke a role from a principal."""
    _revoke(call, args.role_name, (args.principal_name, args.principal_type), option=False)
    return True


def grant_revoke_role(call: Call, args: Struct) -> Struct:
    """Grant or revoke, by request."""
    request = args.request
    principal = (request.principalName, request.principalType)
    option = bool(request.grantOption)
    if request.requestType == GRANT:
        _grant(call, request.roleName, principal, (request.grantor, request.grantorType), option=option)
    elif request.requestType == REVOKE:
        _revoke(call, request.roleName, principal, option=option)
    else:
        raise meta(f"Unknown request type {request.requestType}")
    return new("GrantRevokeRoleResponse", success=True)


_Principal = tuple[str, int]


def _grant(
    call: Call, name: str, principal: _Principal, grantor: tuple[str | None, int | None], *, option: bool
) -> None:
    if name == PUBLIC:
        raise meta(f"No user can be added to {PUBLIC}. Since all users implicitly belong to {PUBLIC} role.")
    found = _found(call, name)
    kind = _kind(principal)
    if kind == ROLE and _is_parent(call, principal[0], name):
        raise meta(
            f"Cannot grant role {principal[0]} to {name} as {name} already belongs to the role {principal[0]}."
            " (no cycles allowed)"
        )
    if _membership(call, name, (principal[0], kind)) is not None:
        raise got("InvalidObjectException", f"Principal {principal[0]} already has the role {name}")
    if kind == ROLE:
        must_be_a_role(call, principal[0])
    given = new(
        "RolePrincipalGrant",
        principalName=principal[0],
        principalType=principal[1],
        grantOption=option,
        grantorName=grantor[0],
        grantorPrincipalType=grantor[1],
    )
    rows.insert_membership(call, found, given)


def _kind(principal: _Principal) -> str:
    kind = owner_type_name(principal[1])
    if kind is None:
        raise Failure("NullPointerException", "the principal has no type")
    return kind


def _found(call: Call, name: str) -> int:
    found = rows.find_role(call, name)
    if found is None:
        raise got("NoSuchObjectException", f"{name} role can not be found.")
    return found[0]


def must_be_a_role(call: Call, name: str) -> None:
    """MetaException if there is no such role, to which privileges or roles are granted."""
    if rows.find_role(call, name) is None:
        raise got("NoSuchObjectException", f"Role {name} does not exist")


def _is_parent(call: Call, name: str, of: str) -> bool:
    """Is it the role `of`, or one that `of` has, directly or through other roles?"""
    above = (role.roleName for _, role, _ in rows.memberships(call, principal=(of, ROLE)))
    return name == of or any(_is_parent(call, name, each) for each in above)


def _membership(call: Call, name: str, principal: tuple[str, str]) -> tuple[int, Struct] | None:
    for id_, role, given in rows.memberships(call, principal=principal):
        if role.roleName == name:
            return id_, given
    return None


def _revoke(call: Call, name: str, principal: _Principal, *, option: bool) -> None:
    """Revoke a role; `option`: only the admin option."""
    if name == PUBLIC:
        raise meta(f"{PUBLIC} role can't be revoked.")
    _found(call, name)
    found = _membership(call, name, (principal[0], _kind(principal)))
    if option:
        if found is None or not found[1].grantOption:
            raise meta(f"User {principal[0]} does not have grant option with role {name}")
        rows.delete_admin_option(call, found[0])
    elif found is not None:
        rows.delete_membership(call, found[0])


def list_roles(call: Call, args: Struct) -> list[Struct]:
    """Roles of a principal; every user has the role `public`."""
    kind = _kind((args.principal_name, args.principal_type))
    found = [role for _, role, _ in rows.memberships(call, principal=(args.principal_name, kind))]
    if kind == USER:
        found.append(new("Role", roleName=PUBLIC, createTime=0, ownerName=PUBLIC))
    return found


def get_role_grants_for_principal(call: Call, args: Struct) -> Struct:
    """The same, with the grantors."""
    request = args.request
    kind = _kind((request.principal_name, request.principal_type))
    found = [given for _, _, given in rows.memberships(call, principal=(request.principal_name, kind))]
    if kind == USER:
        public = {"roleName": PUBLIC, "principalName": request.principal_name, "principalType": OWNER_TYPES[USER]}
        found.append(new("RolePrincipalGrant", **public, grantOption=False, grantTime=0))
    return new("GetRoleGrantsForPrincipalResponse", principalGrants=found)


def get_principals_in_role(call: Call, args: Struct) -> Struct:
    """The principals that have a role."""
    found = [given for _, _, given in rows.memberships(call, role=args.request.roleName)]
    return new("GetPrincipalsInRoleResponse", principalGrants=found)


METHODS = {
    **reads(
        get_role_names=get_role_names,
        list_roles=list_roles,
        get_role_grants_for_principal=get_role_grants_for_principal,
        get_principals_in_role=get_principals_in_role,
    ),
    **writes(
        create_role=create_role,
        drop_role=drop_role,
        grant_role=grant_role,
        revoke_role=revoke_role,
        grant_revoke_role=grant_revoke_role,
    ),
}
