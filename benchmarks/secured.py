"""`python -m benchmarks.secured`: what secured connections cost, beside plain ones of the same worker.

One proxy of one worker that serves every transport, in front of an embedded metastore; a KDC of its own, and passwords
in a file. Hits (`get_database`) one after the other on one connection of each kind, the kinds in turn, round after
round: CPU of the worker's loop, median of the rounds. Then whole handshakes, CPU of all of the worker's threads. Then
many clients that have made a call and are idle: memory of the worker for each, and what they hold at the metastore.
The client is written in Python, and that of auth-int and auth-conf is the slowest: a worker that waits longer for its
client needs more CPU to wake up. Must not know: how a mechanism works.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

import bcrypt

from benchmarks import kept
from tests.proxy import Proxy
from tests.server.logged_in import AUTH, AUTH_CONF, AUTH_INT, Realm, SaslConnection, realm_in
from tests.server.secured import over_tls
from tests.server.test_passwords import log_in
from tests.server.web import Issuer
from tests.testbed.bed import Bed
from tests.testbed.certificates import Authority
from tests.testbed.raw import RawConnection, encode_call

DATABASE: Final = encode_call("get_database", "default", seqid=4)
HEAD: Final = (
    b"POST /metastore/* HTTP/1.1\r\nContent-Type: application/x-thrift\r\nAccept: application/x-thrift\r\n"
    b"User-Agent: Java/THttpClient/HC\r\nAuthorization: Bearer %b\r\nContent-Length: %d\r\nHost: localhost\r\n"
    b"Connection: Keep-Alive\r\nAccept-Encoding: gzip,deflate\r\n\r\n"
)
IDLE_S: Final = 5  # after which an upstream connection is released
USER, PASSWORD = "alice", "secret"


class HttpClient:
    """Head and body in one packet, as Hive's client sends them; an answer that arrives at once."""

    def __init__(self, connection: socket.socket, token: str) -> None:
        self._connection = connection
        self._head = HEAD % (token.encode(), len(DATABASE))

    def call(self, message: bytes) -> bytes:
        """The body of the answer."""
        self._connection.sendall(self._head + message)
        return self._connection.recv(1 << 16).partition(b"\r\n\r\n")[2]

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


Client = RawConnection | HttpClient


class Bench:
    """The proxy, and how a client of each kind connects."""

    def __init__(self, stack: ExitStack, directory: Path) -> None:
        realm = stack.enter_context(realm_in(directory))
        authority, issuer = Authority(directory / "tls"), Issuer()
        files = authority.signed("server")
        passwords = directory / "passwords"
        passwords.write_text(f"{USER}:{bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(10)).decode()}\n")
        settings = {
            "SECURITY_TRANSPORTS": "plain,tls,sasl,tls+sasl,http,tls+http",
            "SECURITY_PASSWORD_FILE": str(passwords),
            "SECURITY_PASSWORDS_WITHOUT_TLS": "true",
            "KERBEROS_KEYTAB": str(realm.proxy),
            "TLS_CERTIFICATE": str(files.certificate),
            "TLS_KEY": str(files.key),
            "HTTP_TRANSPORT_JWKS": str(issuer.written(directory / "keys.json")),
            "UPSTREAM_OPTIONS_IDLE_TIMEOUT_S": str(IDLE_S),
            "LIMITS_MAX_CONNECTIONS": "30000",
        }
        bed = Bed()
        stack.callback(bed.close)
        metastore = bed.private_metastore("embedded")
        assert metastore.database is not None
        self.proxy = Proxy(directory / "proxy", metastore.uri, metastore.database.reader_url, settings)
        stack.callback(self.proxy.close)
        self.proxy.start(prewarmed=True)
        (self.worker,) = self.proxy.children()["worker"]
        self.kinds: dict[str, Callable[[], Client]] = {
            "plain": partial(RawConnection, *self.proxy.address),
            "Kerberos, auth": partial(self._kerberos, realm, AUTH),
            "Kerberos, auth-int": partial(self._kerberos, realm, AUTH_INT),
            "Kerberos, auth-conf": partial(self._kerberos, realm, AUTH_CONF),
            "password": self._password,
            "TLS": partial(over_tls, authority.client(), self.proxy.port),
            "HTTP": lambda: HttpClient(self._socket(), issuer.token()),
            "HTTP within TLS": lambda: HttpClient(
                authority.client().wrap_socket(self._socket(), server_hostname="localhost"), issuer.token()
            ),
        }

    def _socket(self) -> socket.socket:
        return socket.create_connection(self.proxy.address)

    def _kerberos(self, realm: Realm, layer: int) -> RawConnection:
        connection = SaslConnection.to(self.proxy.port)
        connection.log_in(realm.client(USER), layer)
        return _unwrapped(connection) if layer == AUTH else connection

    def _password(self) -> RawConnection:
        return _unwrapped(log_in(RawConnection(*self.proxy.address), USER, PASSWORD))

    def loop_us(self) -> float:
        """CPU time of the worker's loop so far."""
        return _on_cpu_us(Path(f"/proc/{self.worker}/task/{self.worker}"))

    def threads_us(self) -> float:
        """The same of all of the worker's threads."""
        return sum(map(_on_cpu_us, Path(f"/proc/{self.worker}/task").iterdir()))

    def memory_bytes(self) -> int:
        """What the worker has for itself."""
        lines = Path(f"/proc/{self.worker}/smaps_rollup").read_text().splitlines()
        return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Private_"))

    def restart(self) -> None:
        """Another worker, which has used no memory yet."""
        os.kill(self.worker, signal.SIGKILL)
        old = self.worker
        self.proxy.wait(lambda: old not in (self.proxy.children().get("worker") or [old]), "restarted")
        (self.worker,) = self.proxy.children()["worker"]
        with RawConnection(*self.proxy.address) as client:
            client.call(DATABASE)

    def hits(self) -> float:
        return sum(count for (_, outcome, _), count in self.proxy.requests().items() if outcome == "hit")


def _unwrapped(login: SaslConnection) -> RawConnection:
    """The connection after a login without protection: its frames are those of a framed connection, which is read in
    less time. (A worker that waits longer for its client needs more CPU to wake up.)"""
    connection = RawConnection.accepted(login.socket)
    connection.framed = True
    return connection


def _on_cpu_us(task: Path) -> float:
    return int((task / "schedstat").read_text().split()[0]) / 1e3


def hits(bench: Bench, rounds: int, calls: int) -> Iterator[list[Any]]:
    """A row for each kind: CPU of a hit, and how much more than a plain one of the same round."""
    clients = {kind: connect() for kind, connect in bench.kinds.items()}
    answers = {kind: client.call(DATABASE) for kind, client in clients.items()}
    assert len(set(answers.values())) == 1, "the kinds have different answers"
    before, spent = bench.hits(), {kind: list[float]() for kind in clients}
    for _ in range(rounds):
        for kind, client in clients.items():
            began_us = bench.loop_us()
            for _ in range(calls):
                client.call(DATABASE)
            spent[kind].append((bench.loop_us() - began_us) / calls)
    assert bench.hits() - before >= 0.99 * rounds * calls * len(clients), "not all were hits"
    for kind, client in clients.items():
        more = median(each - plain for each, plain in zip(spent[kind], spent["plain"], strict=True))
        times = median(each / plain for each, plain in zip(spent[kind], spent["plain"], strict=True))
        yield [kind, median(spent[kind]), more, times]
        client.close()


def handshakes(bench: Bench, number: int) -> Iterator[list[Any]]:
    """A row for each kind: CPU of a connection with its handshake and one hit."""
    for kind, connect in bench.kinds.items():
        began_us, began_s = bench.threads_us(), time.monotonic()
        for _ in range(number):
            client = connect()
            client.call(DATABASE)
            client.close()
        took_us = (bench.threads_us() - began_us) / number
        yield [kind, took_us, 1e6 / took_us, (time.monotonic() - began_s) / number * 1e3]


def idle_clients(bench: Bench, number: int) -> Iterator[list[Any]]:
    """A row for each kind, with a worker of its own: memory for each idle client, and connections at the metastore."""
    for kind, connect in bench.kinds.items():
        bench.restart()
        before = bench.memory_bytes()
        clients = []
        for _ in range(number):
            clients.append(connect())
            clients[-1].call(DATABASE)
        grown = bench.memory_bytes() - before
        time.sleep(IDLE_S + 3)
        yield [kind, number, grown / number / 1e3, int(bench.proxy.metric("hms_proxy_upstream_connections"))]
        for client in clients:
            client.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.secured", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--calls", type=int, default=400, help="of each round")
    parser.add_argument("--handshakes", type=int, default=300)
    parser.add_argument("--clients", type=int, default=5000, help="that are idle at the same time")
    kept.option(parser)
    options = parser.parse_args()
    of = kept.origin()
    os.environ.setdefault("KRB5_TRACE", os.devnull)
    with tempfile.TemporaryDirectory(prefix="hms-bench-") as directory, ExitStack() as stack:
        bench = Bench(stack, Path(directory))
        tables = [
            kept.table(title, head, _shown(rows), text=1)
            for title, head, rows in (
                (
                    "Hits on an open connection: CPU of the worker's loop",
                    ["connection", "us", "us more than plain", "times plain"],
                    hits(bench, options.rounds, options.calls),
                ),
                (
                    "A connection with its handshake and one hit: CPU of all threads of the worker",
                    ["connection", "us", "a second on one core", "ms until the answer"],
                    handshakes(bench, options.handshakes),
                ),
                (
                    "Idle clients",
                    ["connection", "clients", "kB of the worker's memory for each", "connections at the metastore"],
                    idle_clients(bench, options.clients),
                ),
            )
        ]
    if options.keep:
        kept.keep("single/secured", *tables, command="python -m benchmarks.secured --keep", of=of)


def _shown(rows: Iterator[list[Any]]) -> list[list[Any]]:
    found = []
    for row in rows:
        print(*(f"{value:.4g}" if isinstance(value, float) else value for value in row), sep=" | ", flush=True)
        found.append(row)
    return found


if __name__ == "__main__":
    main()
