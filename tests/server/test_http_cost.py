"""What a hit costs over HTTP, against one on a plain connection of the same worker."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from tests.proxy import Proxy
from tests.server.web import Issuer
from tests.testbed.certificates import Authority
from tests.testbed.metastore import Metastore
from tests.testbed.raw import RawConnection, encode_call

CALLS = 300
ROUNDS = 3
DATABASE = encode_call("get_database", "default", seqid=4)


HEAD = (
    b"POST /metastore/* HTTP/1.1\r\nContent-Type: application/x-thrift\r\nAccept: application/x-thrift\r\n"
    b"User-Agent: Java/THttpClient/HC\r\nAuthorization: Bearer %b\r\nContent-Length: %d\r\nHost: localhost\r\n"
    b"Connection: Keep-Alive\r\nAccept-Encoding: gzip,deflate\r\n\r\n"
)
"""As Hive's client sends it, in one packet with the body."""


def posted(connection: socket.socket, head: bytes, message: bytes) -> bytes:
    """The body of the answer, which arrives at once."""
    connection.sendall(head + message)
    return connection.recv(1 << 16).partition(b"\r\n\r\n")[2]


def cpu_s(process: int) -> float:
    """Of its first thread, which has the loop, in nanoseconds of the kernel's own count."""
    return int(Path(f"/proc/{process}/schedstat").read_text().split()[0]) / 1e9


@pytest.mark.timeout(900)
def test_a_hit_over_http(
    new_metastore: Callable[..., Metastore], new_proxy: Callable[..., Proxy], tmp_path: Path
) -> None:
    authority, issuer = Authority(tmp_path / "tls"), Issuer()
    files = authority.signed("server")
    settings = {
        "SECURITY_TRANSPORTS": "plain,tls,http,tls+http",
        "TLS_CERTIFICATE": str(files.certificate),
        "TLS_KEY": str(files.key),
        "HTTP_TRANSPORT_JWKS": str(issuer.written(tmp_path / "keys.json")),
        "WORKERS": "1",
    }
    proxy = new_proxy(new_metastore("embedded"), settings=settings)
    (worker,) = proxy.children()["worker"]
    head = HEAD % (issuer.token().encode(), len(DATABASE))
    with ExitStack() as stack:
        plain = stack.enter_context(RawConnection(*proxy.address))
        web = stack.enter_context(socket.create_connection(proxy.address))
        bare = socket.create_connection(proxy.address)
        secured = stack.enter_context(authority.client().wrap_socket(bare, server_hostname="localhost"))
        kinds: dict[str, Callable[[bytes], bytes]] = {
            "plain": plain.call,
            "http": partial(posted, web, head),
            "tls+http": partial(posted, secured, head),
        }
        expected = plain.call(DATABASE)
        spent = dict.fromkeys(kinds, 0.0)
        for call in kinds.values():
            assert call(DATABASE) == expected
        before = proxy.hits()
        for _ in range(ROUNDS):
            for kind, call in kinds.items():
                began = cpu_s(worker)
                for _ in range(CALLS):
                    call(DATABASE)
                spent[kind] += cpu_s(worker) - began
        assert proxy.hits() >= before + 0.9 * ROUNDS * CALLS * len(kinds)
    each = {kind: round(seconds / ROUNDS / CALLS * 1e6, 1) for kind, seconds in spent.items()}
    print("microseconds of a worker's processor for a hit:", each)
    assert each["http"] < 2 * each["plain"], each
