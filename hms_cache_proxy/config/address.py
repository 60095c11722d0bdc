"""Addresses in settings: where this proxy listens, and where metastores are.

Job: turn a text into an Address. Must not know: which setting it is, whether anything is there. Owner: any process; no
state.
"""

from __future__ import annotations

from typing import NamedTuple


class Address(NamedTuple):
    """A host and a port; `str()` gives `host:port`, with brackets around an IPv6 host."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def uri(self) -> str:
        return f"thrift://{self}"

    @property
    def loopback(self) -> bool:
        return self.host in ("localhost", "::1") or self.host.startswith("127.")


def parse_address(value: object) -> Address:
    """`HOST:PORT`, `[IPV6]:PORT` or `:PORT` (every interface); ValueError if it is none of them."""
    if isinstance(value, Address):
        return value
    host, colon, port = str(value).strip().rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535 or host.count(":") and host[0] + host[-1] != "[]":
        raise ValueError(f"{value!r} is not HOST:PORT")
    if not is_host_name(host):
        raise ValueError(f"{value!r}: no host can have this name: a label is empty, or too long")
    return Address(host.strip("[]") or "0.0.0.0", int(port))


def is_host_name(host: str) -> bool:
    """Can this be looked up, and be a certificate's name?"""
    try:
        host.encode("idna")  # as whoever looks the name up does
    except UnicodeError:
        return False
    return True


def parse_upstream(value: object) -> Address:
    """`thrift://HOST:PORT`, or without the scheme; ValueError if it is neither."""
    text = str(value).strip()
    if isinstance(value, Address):
        return value
    scheme, separator, rest = text.partition("://")
    if separator and scheme != "thrift":
        http = ", with http_transport.upstream = true" if scheme in ("http", "https") else ""
        raise ValueError(f"{text!r}: only thrift://HOST:PORT is supported{http}")
    address = parse_address(rest.rstrip("/") if separator else text)
    if address.port == 0:
        raise ValueError(f"{text!r} has no port")
    return address
