"""A proxy in front of a metastore with Kerberos, which is another proxy with an embedded metastore and tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from hive_metastore.ttypes import Database

from tests.proxy import Proxy
from tests.server.logged_in import AUTH, Realm, SaslConnection
from tests.testbed.raw import decode_reply, encode_call

Started = Callable[..., Proxy]


class Place(NamedTuple):
    """The realm, and what starts proxies in it."""

    realm: Realm
    started: Started

    def metastore(self, **more: str) -> Proxy:
        """Where the proxy may act for everybody but eve."""
        settings = {"EMBEDDED": "true", "TOKENS_PROXY_USERS": "proxy=alice|bob|carol|dave", **more}
        return self.started("metastore", "", {**self.realm.environment("sasl"), **settings})

    def proxy(self, metastore: Proxy, *transports: str, **more: str) -> Proxy:
        """In front of it."""
        service = self.realm.service(SECURITY_UPSTREAM_IDENTITY="delegate", STORE="none", WORKERS="1")
        settings = {**self.realm.environment(*(transports or ("sasl",))), **service, **more}
        return self.started("proxy", f"thrift://localhost:{metastore.port}", settings)

    def client(self, port: int, user: str = "alice", layer: int = AUTH) -> SaslConnection:
        """After a login at this port."""
        connection = SaslConnection.to(port)
        connection.log_in(self.realm.client(user), layer)
        return connection


@contextmanager
def place_in(realm: Realm, directory: Path) -> Iterator[Place]:
    """What is started has its files in this directory, and ends with the block."""
    with ExitStack() as stack:

        def started(name: str, upstream: str, settings: dict[str, str]) -> Proxy:
            proxy = Proxy(directory / name, upstream, settings=settings)
            stack.callback(proxy.close)
            return proxy.start()

        yield Place(realm, started)


def owner_of(client: SaslConnection, name: str) -> str:
    """Who owns a new database of this name, which is left to the metastore."""
    assert decode_reply(client.call(encode_call("create_database", Database(name=name, parameters={}))))[2].o1 is None
    found: Any = decode_reply(client.call(encode_call("get_database", name)))[2].success
    return str(found.ownerName)
