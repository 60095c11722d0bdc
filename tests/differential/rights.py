"""Roles, their grants, and data connectors, in the differential test: changes, and reads of what TTL mode keeps.

No change of them has an event, and of data connectors no read is ever kept. Neither are types, resource plans, schemas
of a registry and scheduled queries, whose reads go to the metastore in every mode (methods/table.py): so they are not
generated.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hive_metastore.ttypes import (
    GetPrincipalsInRoleRequest,
    GetRoleGrantsForPrincipalRequest,
    GrantRevokeRoleRequest,
    GrantRevokeType,
    HiveObjectRef,
    HiveObjectType,
    PrincipalType,
    Role,
)

from tests.differential.contents import TableNote
from tests.differential.parts import PartOfChanges
from tests.differential.variants import Variants
from tests.differential.wire import hms
from tests.testbed.client import MetastoreClient

ROLES = ("r0", "r1", "r2")
USERS = ("me", "you")
CONNECTORS = ("dc0", "dc1")


class RightsChanges(PartOfChanges):
    """`through`: makes what leaves no event."""

    through: MetastoreClient

    def change_create_role(self) -> None:
        name = self.rng.choice(ROLES)
        self._write({"create_role": {"role": Role(roleName=name, createTime=1, ownerName="me")}}, self.through)
        self.world.roles.append(name)

    def change_drop_role(self) -> None:
        """With its grants; never the last one."""
        roles = self.world.roles
        if len(roles) > 1:
            self._write({"drop_role": {"role_name": roles[0]}}, self.through)
            del roles[0]

    def change_grant_role(self) -> None:
        """To a user who may have it."""
        role, user = self.rng.choice(self.world.roles or ROLES), self.rng.choice(USERS)
        self._write(grant_role(role, user, option=self.rng.random() < 0.5), self.through)
        self.world.members.append((role, user))

    def change_revoke_role(self) -> None:
        """From a user who may not have it any more."""
        members = self.world.members
        role, user = members.pop() if members else (self.rng.choice(ROLES), self.rng.choice(USERS))
        self._write(revoke_role(role, user), self.through)

    def change_create_connector(self) -> None:
        request = hms.CreateDataConnectorRequest(connector=self._some_connector())
        self._connector({"create_dataconnector_req": {"connectorReq": request}})

    def change_alter_connector(self) -> None:
        new = self._some_connector()
        request = hms.AlterDataConnectorRequest(connectorName=new.name, newConnector=new)
        self._connector({"alter_dataconnector_req": {"alterReq": request}})

    def change_drop_connector(self) -> None:
        name = self.rng.choice(CONNECTORS)
        request = hms.DropDataConnectorRequest(connectorName=name, ifNotExists=False, checkReferences=True)
        self._connector({"drop_dataconnector_req": {"dropDcReq": request}})

    def _some_connector(self) -> Any:
        name, about = self.rng.choice(CONNECTORS), str(self.rng.random())
        given = {"name": name, "type": "mysql", "url": "jdbc:mysql://localhost:1/none", "description": about}
        return hms.DataConnector(**given, parameters={}, ownerName="me", ownerType=1, createTime=1)

    def _connector(self, variants: Variants) -> None:
        """Not on versions that have no such call."""
        if variants.keys() <= self.writer.methods:
            self._write(variants, self.through)


def grant_role(role: str, user: str, *, option: bool) -> Variants:
    grantor = {"grantor": "me", "grantorType": PrincipalType.USER}
    request = GrantRevokeRoleRequest(
        GrantRevokeType.GRANT, role, user, PrincipalType.USER, **grantor, grantOption=option
    )
    given = {"role_name": role, "principal_name": user, "principal_type": PrincipalType.USER, **grantor}
    return {"grant_role": {**given, "grant_option": option}, "grant_revoke_role": {"request": request}}


def revoke_role(role: str, user: str) -> Variants:
    request = GrantRevokeRoleRequest(GrantRevokeType.REVOKE, role, user, PrincipalType.USER)
    return {
        "revoke_role": {"role_name": role, "principal_name": user, "principal_type": PrincipalType.USER},
        "grant_revoke_role__revoke": {"request": request},
    }


def reads_of_roles() -> Iterator[tuple[str, dict[str, Any]]]:
    """Of all of them."""
    yield "get_role_names", {}
    for user in USERS:
        yield "list_roles", {"principal_name": user, "principal_type": PrincipalType.USER}
        yield "get_role_grants_for_principal", {"request": GetRoleGrantsForPrincipalRequest(user, PrincipalType.USER)}
    for role in ROLES:
        yield "get_principals_in_role", {"request": GetPrincipalsInRoleRequest(role)}


def reads_of_privileges(note: TableNote) -> Iterator[tuple[str, dict[str, Any]]]:
    """Of a table."""
    what = HiveObjectRef(HiveObjectType.TABLE, note.database, note.name)
    for user in USERS:
        yield (
            "list_privileges",
            {"principal_name": user, "principal_type": PrincipalType.USER, "hiveObject": what},
        )
        yield "get_privilege_set", {"hiveObject": what, "user_name": user, "group_names": []}
