"""The ports of a proxy: taken once, at once, and for both versions of IP."""

from __future__ import annotations

import os
import socket

import pytest

from hms_cache_proxy.config import Address
from hms_cache_proxy.errors import ConfigError
from hms_cache_proxy.processes import ports
from tests.testbed.processes import SOON_S


def test_of_two_proxies_that_start_at_the_same_time_one_has_the_port() -> None:
    """Two sockets that are only bound could both be, and one of the two proxies would end with a traceback later."""
    (first,) = ports.bound(Address("127.0.0.1", 0), "http")
    with first, pytest.raises(ConfigError) as refused:
        ports.bound(Address("127.0.0.1", first.getsockname()[1]), "http")
    assert f"the port is in use by process {os.getpid()} (" in str(refused.value)


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
def test_every_interface_is_every_interface() -> None:
    (every,) = ports.bound(Address("::", 0), "http")
    with every:
        for host in ("127.0.0.1", "::1"):
            socket.create_connection((host, every.getsockname()[1]), SOON_S).close()
