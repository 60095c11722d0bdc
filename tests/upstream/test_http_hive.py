"""Hive 4.2 over HTTP, behind the proxy: calls come from the client's user, by a header and by tokens."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hive_metastore.ttypes import Database
from thrift.Thrift import TApplicationException

from tests.proxy import Proxy
from tests.server.web import Issuer, Web
from tests.testbed import artifacts
from tests.testbed.bed import Bed
from tests.testbed.client import MetastoreClient
from tests.testbed.hive import QUICK_START, TRANSPORT_SETTING
from tests.testbed.metastore import Metastore
from tests.testbed.objects import create_table, table
from tests.testbed.processes import wait_until
from tests.testbed.raw import RawConnection, decode_reply, encode_call

JARS = ("pac4j-core-*.jar", "nimbus-jose-jwt-*.jar")  # which Hive 4.2's own lists leave out
LONG = "y" * 1_000_000


@contextmanager
def hive_over_http(bed: Bed, flavours: tuple[str, str], authentication: str, **settings: str) -> Iterator[Metastore]:
    """Hive with this `metastore.authentication`: a flavour, with classes of the other one's distribution."""
    flavour, other = flavours
    assert other == "hive40"
    library = artifacts.hive40_home() / "lib"
    given = {TRANSPORT_SETTING: "http", "metastore.authentication": authentication, **settings}
    classes = tuple(str(next(library.glob(jar))) for jar in JARS)
    hive = bed.private_metastore(flavour, settings=given, java_options=QUICK_START, classes=classes)
    try:
        yield hive
    finally:
        bed.release(hive)


@pytest.mark.parametrize("flavours", [("hive42", "hive40")])
@pytest.mark.secures(
    client="Python",
    login="none",
    metastore="Hive 4.2 over HTTP, `NONE`",
    who="the user, whom the client names, by `x-actor-username`",
)
def test_users_by_a_header(bed: Bed, flavours: tuple[str, str], tmp_path: Path) -> None:
    """The follower reads over HTTP, too, and reads are answered from the cache."""
    with hive_over_http(bed, flavours, "NONE") as hive:
        settings = {"HTTP_TRANSPORT_UPSTREAM": "true", "HTTP_TRANSPORT_UPSTREAM_USER": "proxy", "STORE": "thrift"}
        proxy = Proxy(tmp_path / "proxy", hive.uri, settings=settings)
        try:
            proxy.start(prewarmed=True)
            assert proxy.status()["mode"] == "cache", proxy.log_tail()
            with MetastoreClient(*proxy.address) as client:
                for user in ("alice", "bob"):
                    client.set_ugi(user, [])
                    client.create_database(Database(name=f"of_{user}", parameters={}))
                    assert client.get_database(f"of_{user}").ownerName == user
                create_table(client, table("of_bob", "long", parameters={"long": LONG}))
                assert client.get_table("of_bob", "long").parameters["long"] == LONG
                create_table(client, table("of_bob", "t"))
                proxy.wait_event(client.get_current_notificationEventId().eventId)

                def is_hit() -> bool:
                    assert client.get_table("of_bob", "t").tableName == "t"
                    return proxy.told_requests().get(("get_table", "hit", ""), 0) > 0

                assert wait_until(is_hit), [key for key in proxy.requests() if key[0] == "get_table"]
            with RawConnection(*proxy.address) as raw:  # a method that returns something does so, whatever the type
                raw.call(encode_call("set_ugi", "alice", []))
                raw.send_bytes(encode_call("shutdown"))
                replies = [raw.call(encode_call("get_role_names", seqid=3, oneway=oneway)) for oneway in (True, False)]
                assert replies[0] == replies[1], replies
                assert "admin" in decode_reply(replies[0])[2].success
            assert proxy.metric("hms_proxy_internal_errors_total") == 0
        finally:
            proxy.close()


@pytest.mark.parametrize("flavours", [("hive42", "hive40")])
@pytest.mark.secures(
    client="Python",
    login="HTTP with JWT; passed through",
    metastore="Hive 4.2 over HTTP, `JWT`",
    who="the user of the token",
)
def test_users_by_their_tokens(bed: Bed, flavours: tuple[str, str], tmp_path: Path) -> None:
    """Hive checks them; the proxy's own keys are those of one more issuer."""
    issuer, other = Issuer(), Issuer("two")
    keys, both, own = issuer.written(tmp_path / "keys.json"), tmp_path / "both.json", tmp_path / "own"
    both.write_text(json.dumps({"keys": [*issuer.keys["keys"], *other.keys["keys"]]}))
    own.write_text(issuer.token("proxy"))
    with hive_over_http(bed, flavours, "JWT", **{"metastore.authentication.jwt.jwks.url": keys.as_uri()}) as hive:
        settings = {
            "SECURITY_TRANSPORTS": "http",
            "SECURITY_UPSTREAM_IDENTITY": "pass_through",
            "HTTP_TRANSPORT_JWKS": str(both),
            "HTTP_TRANSPORT_UPSTREAM": "true",
            "HTTP_TRANSPORT_UPSTREAM_TOKEN_FILE": str(own),
            "STORE": "none",
        }
        proxy = Proxy(tmp_path / "proxy", hive.uri, settings=settings)
        try:
            proxy.start()
            with Web(proxy.port) as web:
                for number, (user, signer) in enumerate(
                    (("alice", issuer), ("bob", issuer), ("eve", other), ("alice", issuer))
                ):
                    web.headers["Authorization"] = f"Bearer {signer.token(user)}"
                    made = encode_call("create_database", Database(name=f"db_{number}", parameters={}))
                    said = decode_reply(web.call(made))[2]
                    if signer is other:
                        assert isinstance(said, TApplicationException) and "HTTP status 401" in str(said), said
                        assert "Failed to validate JWT" in str(said) and "was not done" in str(said)
                    else:
                        assert not isinstance(said, TApplicationException), said
                        found = decode_reply(web.call(encode_call("get_database", f"db_{number}")))[2].success
                        assert found.ownerName == user
            assert proxy.status()["upstream"]["reachable"], proxy.log_tail()
        finally:
            proxy.close()
