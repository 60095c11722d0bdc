"""Whom HTTP requests come from: the paths that are served."""

from __future__ import annotations

from http import HTTPStatus

import pytest

from hms_cache_proxy.config.http_transport import HttpTransportSection
from hms_cache_proxy.security.http_users import HttpUsers
from hms_cache_proxy.wire.http import Head, HttpError

USERS = HttpUsers(HttpTransportSection(authentication="header", trusted_addresses=("127.0.0.1",)), None)


def admitted(target: bytes) -> str:
    head = Head(b"POST", target, {b"x-actor-username": b"alice"}, True, False)
    return USERS.admit(head, "127.0.0.1").user


@pytest.mark.parametrize(
    "target",
    [
        *(b"/metastore", b"/metastore/*", b"/metastore?x=http://y/"),
        *(b"http://proxy:9083/metastore", b"HTTPS://[::1]:9083/metastore/*?x"),  # as to a forward proxy (RFC 9112)
    ],
)
def test_targets(target: bytes) -> None:
    assert admitted(target) == "alice"


@pytest.mark.parametrize(
    "target",
    [b"/", b"*", b"http://proxy:9083", b"http://proxy:9083/", b"http://proxy/x/metastore", b"ftp://proxy/metastore"],
)
def test_targets_that_are_elsewhere(target: bytes) -> None:
    with pytest.raises(HttpError) as refused:
        admitted(target)
    assert refused.value.status is HTTPStatus.NOT_FOUND
