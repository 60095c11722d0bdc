"""Networks of addresses that rules name.

Job: tell whether an address is in one of several networks. Must not know: whose address it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address


def within(address: str, networks: Sequence[IPv4Network | IPv6Network]) -> bool:
    """Is it in one of them? An IPv4 address that is written as an IPv6 one counts as what it is."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None)
    return any((mapped or found) in network for network in networks)
