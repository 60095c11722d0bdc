"""The audit log with real connections: logins, those that are refused, and what is refused without one."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.server.conftest import Worker, started
from tests.server.logged_in import AUTH, Refused, SaslConnection, realm_in
from tests.server.scripted import ScriptedMetastore
from tests.server.web import Issuer, Web
from tests.testbed.certificates import Authority
from tests.testbed.processes import SOON_S, wait_until
from tests.testbed.raw import encode_call

VERSION = encode_call("getVersion", seqid=4)


def lines_of(logs: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for file in sorted(logs.glob("*.jsonl")) for line in file.read_text().splitlines()]


def wait_for(logs: Path, wanted: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
    assert wait_until(lambda: wanted(lines_of(logs)), SOON_S), lines_of(logs)
    return lines_of(logs)


def without(line: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in line.items() if key not in ("time", "client", *keys)}


def refused_plain(worker: Worker) -> None:
    with socket.create_connection(("127.0.0.1", worker.port), SOON_S, (worker.source, 0)) as plain:
        plain.sendall(VERSION)
        with suppress(ConnectionResetError):
            assert plain.recv(1) == b""


def test_logins_with_kerberos(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    rules = [r"RULE:[1:$1@$0](alice@LAB\.TEST)s/@.*//"]
    with (
        realm_in(tmp_path) as realm,
        ScriptedMetastore() as metastore,
        started(
            tmp_path, metastore.address, **realm.settings(auth_to_local=rules), audit_log={"directory": str(logs)}
        ) as worker,
    ):
        with SaslConnection.to(worker.port, worker.source) as alice:
            alice.log_in(realm.client("alice"), AUTH)
            alice.call(VERSION)
        with SaslConnection.to(worker.port, worker.source) as bob, pytest.raises((Refused, AssertionError)):
            bob.log_in(realm.client("bob"), AUTH)
        refused_plain(worker)
        lines = wait_for(logs, lambda lines: len(lines) == 4)
    found = {line["event"]: line for line in lines}
    common = {"transport": "sasl", "mechanism": "GSSAPI"}
    login = {"event": "login", "user": "alice", "principal": "alice@LAB.TEST"}
    assert without(found["login"]) == {**common, **login}
    assert found["login_refused"]["why"] == "no rule of kerberos.auth_to_local applies to bob@LAB.TEST"
    assert without(found["login_refused"], "why") == {**common, "event": "login_refused"}
    who = {"transport": "sasl", "user": "alice", "user_by": "sasl"}
    call = {"event": "call", "method": "getVersion", "objects": [], "outcome": "relayed", "reason": "no_store"}
    assert without(found["call"]) == {**call, **who}
    assert found["call"]["client"] == found["login"]["client"]
    assert found["connection_refused"]["transport"] == "binary"


def test_logins_over_http_and_tls(tmp_path: Path) -> None:
    logs, authority, issuer = tmp_path / "logs", Authority(tmp_path), Issuer()
    settings: dict[str, Any] = {
        "security": {"transports": ["tls+http"]},
        "tls": authority.signed("server").settings(),
        "http_transport": {"jwks": str(issuer.written(tmp_path / "keys.json"))},
        "audit_log": {"directory": str(logs)},
    }
    with ScriptedMetastore() as metastore, started(tmp_path, metastore.address, **settings) as worker:
        token = issuer.token("alice")
        with Web(worker.port, tls=authority.client(), Authorization=f"Bearer {token}") as web:
            assert wait_until(lambda: web.ask(VERSION).status == 200), worker.log()
            web.headers["Authorization"] = f"Bearer {token[:-8]}AAAAAAAA"
            assert web.ask(VERSION).status == 401
            web.headers["Authorization"] = f"Bearer {token}"
            assert web.ask(VERSION, path="/elsewhere").status == 404
        refused_plain(worker)
        lines = wait_for(logs, lambda lines: {"connection_refused", "request_refused"} <= {e["event"] for e in lines})
        text = "".join(file.read_text() for file in logs.iterdir())
    assert token not in text and token[:40] not in text
    found = {line["event"]: line for line in lines}
    assert without(found["login"]) == {"event": "login", "transport": "tls+http", "mechanism": "jwt", "user": "alice"}
    assert (found["login_refused"]["status"], found["request_refused"]["status"]) == (401, 404)
    assert "signature" in found["login_refused"]["detail"].lower()
    who = {"transport": "tls+http", "user": "alice", "user_by": "jwt"}
    call = {"event": "call", "method": "getVersion", "objects": [], "outcome": "relayed", "reason": "no_store"}
    assert without(found["call"]) == {**call, **who}
