"""Two users in front of Hive 4.2 with an authorization of its own, by directories or by grants, while their rights
change: with `authorization = "learned"`, each answer is one that the metastore gave this user within
`authorization_ttl_s`."""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from tests.chance import chance
from tests.lengths import by_tier
from tests.methods.oracle import Oracle
from tests.methods.structs import descriptor, struct
from tests.proxy import Proxy
from tests.testbed.metastore import Metastore
from tests.visibility.reads import arguments, table
from tests.visibility.rights import REFUSED, SHOWN, Rights

OWNER, OTHER = "daemon", "nobody"  # of every Debian: storage-based authorization asks who owns a directory
USERS = (OWNER, OTHER)
TABLES = tuple(f"d.{table}" for table in ("a", "b", "parts"))
METHODS = ("get_table", "get_table_req", "get_fields", "get_partition_by_name")
READS_A_CHANGE = 100
OTHERS_METHOD = "get_table_objects_by_name_req"  # which nobody else asks
OTHERS_GRANTS = 60
TTL_S = 20.0
HITS = [(method, "hit") for method in METHODS]
EVERYTHING, TABLE = 1, 3  # HiveObjectType
HIVE = "org.apache.hadoop.hive.ql.security"
SETTINGS = {
    "metastore.pre.event.listeners": f"{HIVE}.authorization.AuthorizationPreEventListener",
    "hive.security.metastore.authenticator.manager": f"{HIVE}.HadoopDefaultMetastoreAuthenticator",
    "hive.security.metastore.authorization.auth.reads": "true",
}
MANAGERS = {"storage": "StorageBasedAuthorizationProvider", "grants": "DefaultHiveMetastoreAuthorizationProvider"}


class Directories(Rights):
    """Who may read a table's directory: OWNER as its owner, OTHER as somebody else."""

    def __init__(self, data: Path) -> None:
        super().__init__()
        self._data = data
        for what in TABLES:
            os.chown(self._directory(what), pwd.getpwnam(OWNER).pw_uid, -1)
            self._apply("", what)

    def _directory(self, what: str) -> Path:
        return self._data / what.partition(".")[2]

    def _apply(self, user: str, what: str) -> None:
        bits = {OWNER: 0o700, OTHER: 0o005}
        allowed = sum(bits[user] for user in USERS if (user, what) not in self.restricted)
        self._directory(what).chmod(allowed)


class Grants(Rights):
    """Who has been granted a table: at the metastore itself, or through the proxy."""

    def __init__(self, straight: Oracle, proxied: Oracle, draw: Random) -> None:
        super().__init__()
        self._straight, self._proxied, self._draw = straight, proxied, draw
        self._caller = straight
        for user in USERS:
            for what in TABLES:
                straight.do("grant_privileges", privileges=_select(user, what))

    def set(self, user: str, what: str, state: str, column: str = "") -> None:
        """A change through the proxy ends the table's verdicts before its reply is passed on."""
        through_the_proxy = self._draw.random() < 0.5
        self._caller = self._proxied if through_the_proxy else self._straight
        super().set(user, what, state, column)
        if through_the_proxy:
            self.ended(what)

    def _apply(self, user: str, what: str) -> None:
        call = "revoke_privileges" if (user, what) in self.restricted else "grant_privileges"
        self._caller.do(call, privileges=_select(user, what))


def _granted(user: str, privilege: bytes, kind: int, **names: bytes) -> Any:
    terms = {"createTime": 0, "grantor": b"root", "grantorType": 1, "grantOption": False}
    info = struct("PrivilegeGrantInfo", privilege=privilege, **terms)
    on = struct("HiveObjectRef", objectType=kind, partValues=[], **names)
    principal = {"principalName": user.encode(), "principalType": 1}
    granted = struct("HiveObjectPrivilege", hiveObject=on, grantInfo=info, authorizer=b"SQL", **principal)
    return struct("PrivilegeBag", privileges=[granted])


def _select(user: str, what: str) -> Any:
    database, _, name = what.encode().partition(b".")
    return _granted(user, b"SELECT", TABLE, dbName=database, objectName=name)


def made(admin: Oracle, data: Path) -> None:
    """The objects, each table in a directory of its own."""
    columns = [struct("FieldSchema", name=b"id", type=b"string")]
    database = struct("Database", name=b"d", locationUri=data.as_uri().encode())
    admin.do("grant_privileges", privileges=_granted("root", b"ALL", EVERYTHING))  # of use where grants decide
    admin.do("create_database", database=database)
    for what in TABLES:
        name = what.partition(".")[2]
        directory = data / name
        directory.mkdir()
        keys = [struct("FieldSchema", name=b"dt", type=b"string")] if name == "parts" else []
        admin.do("create_table", tbl=table(b"d", name.encode(), columns, keys, directory.as_uri().encode()))
    own = descriptor(cols=columns, location=(data / "parts" / "1").as_uri().encode())
    part = struct("Partition", dbName=b"d", tableName=b"parts", values=[b"1"], sd=own, parameters={})
    admin.do("add_partition", new_part=part)


@dataclass(slots=True)
class Reader:
    """One user's connection through the proxy."""

    user: str
    connection: Oracle
    rights: Rights
    refused: int = 0

    def read(self, method: str, what: str) -> str:
        """Ask something, judge the answer, and say what it was."""
        if method == "get_partition_by_name":
            what = "d.parts"
        sent_s = time.monotonic()
        reply = self.connection.ask(method, **arguments(method, what, b"1"))
        allowed = self.rights.states(self.user, [what], TTL_S, sent_s, time.monotonic())[0]
        found = REFUSED if reply.value.success is None else SHOWN
        assert found in allowed, f"{self.user}: {method} of {what} was {found}, not {allowed}: {reply.plain}"
        self.refused += found == REFUSED
        return found


class Place(NamedTuple):
    """Two users' connections, and what they may read."""

    proxy: Proxy
    readers: list[Reader]
    rights: Rights
    draw: Random
    admin: Oracle  # through the proxy


@pytest.fixture(params=MANAGERS)
def place(
    request: pytest.FixtureRequest,
    new_metastore: Callable[..., Metastore],
    new_proxy: Callable[..., Proxy],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Place]:
    """A metastore with this kind of authorization, and a proxy that learns."""
    if os.geteuid() != 0:
        pytest.skip("only root may give a directory to another account")
    data = tmp_path_factory.mktemp("data")
    manager = {"hive.security.metastore.authorization.manager": f"{HIVE}.authorization.{MANAGERS[request.param]}"}
    metastore = new_metastore("hive42", settings=SETTINGS | manager)
    with closing(Oracle("{}:{}".format(*metastore.address))) as straight, ExitStack() as stack:
        made(straight, data)
        proxy = new_proxy(
            metastore, settings={"AUTHORIZATION": "learned", "AUTHORIZATION_TTL_S": str(TTL_S), "WORKERS": "1"}
        )
        address, draw = "{}:{}".format(*proxy.address), chance(f"kinds of authorization: {request.param}")
        proxied, *connections = (stack.enter_context(closing(Oracle(address))) for _ in (None, *USERS))
        rights = Directories(data) if request.param == "storage" else Grants(straight, proxied, draw)
        readers = [Reader(user, one, rights) for user, one in zip(USERS, connections, strict=True)]
        for reader in readers:
            reader.connection.do("set_ugi", user_name=reader.user.encode(), group_names=[])
        yield Place(proxy, readers, rights, draw, proxied)


@pytest.mark.timeout(1800)
def test_two_users(place: Place) -> None:
    draw = place.draw
    for number in range(int(by_tier(test=600, all=1500, every=10_000))):
        if number % READS_A_CHANGE == READS_A_CHANGE - 1:
            pair = draw.choice(USERS), draw.choice(TABLES)
            place.rights.set(*pair, SHOWN if pair in place.rights.restricted else REFUSED)
        draw.choice(place.readers).read(draw.choice(METHODS), draw.choice(TABLES))
    _a_right_that_is_taken_away_ends(place)
    _grants_on_another_table_end_nothing(place)
    hits = sum(count for (method, how, _), count in place.proxy.requests().items() if (method, how) in HITS)
    print(f"{hits:.0f} hits; refused: {[reader.refused for reader in place.readers]}")
    assert hits > 0 and any(reader.refused for reader in place.readers)
    assert place.proxy.metric("hms_proxy_internal_errors_total") == 0


def _a_right_that_is_taken_away_ends(place: Place) -> None:
    """The user's reads are hits; then they are refused within the time that each of them is judged by."""
    reader, what = place.readers[0], "d.a"
    if (reader.user, what) in place.rights.restricted:  # Hive refuses to grant what is granted
        place.rights.set(reader.user, what, SHOWN)
    while reader.read("get_table", what) == REFUSED:
        pass
    reader.read("get_table", what)
    place.rights.set(reader.user, what, REFUSED)
    while reader.read("get_table", what) == SHOWN:
        pass


def _grants_on_another_table_end_nothing(place: Place) -> None:
    """Each read comes behind such a grant through the proxy. Only time ends its verdict, every quarter of a minute."""
    reader, what, other = place.readers[0], "d.a", "d.b"
    place.rights.set(reader.user, what, SHOWN)
    reader.connection.ask(OTHERS_METHOD, **arguments(OTHERS_METHOD, what, b""))
    for number in range(OTHERS_GRANTS):
        place.admin.do("grant_privileges", privileges=_select(f"somebody{number}", other))
        reader.connection.ask(OTHERS_METHOD, **arguments(OTHERS_METHOD, what, b""))
    counted = {how: number for (method, how, _), number in place.proxy.requests().items() if method == OTHERS_METHOD}
    print(f"reads behind {OTHERS_GRANTS} grants on another table: {counted}")
    assert counted["hit"] > OTHERS_GRANTS / 2
