"""Every exception of this package, split by whose fault it is.

    ProxyError
    +-- WireError        the peer sent bytes that are not what the protocol allows
    |   +-- LimitError   ... or more of them than a named limit allows
    |   +-- WriteIdsError  ... or a malformed list of write ids or transactions: it proves nothing
    +-- UpstreamError    a metastore cannot be reached, died, or is not one that may be used
    +-- StoreError       the backing database cannot be read, or is not a metastore schema that is known
    |   +-- LogClosed    ... or (over Thrift) does not let its notification log be read
    |   +-- Unfit        ... or has an object in a form that a cache cannot hold without loss
    +-- CacheError       the shared cache cannot be used (another upstream's, damaged, locked)
    |   +-- CacheFull    ... or has no room left
    +-- SnapshotError    a snapshot of a catalog cannot be made or used (not there, damaged, of something else)
    +-- AdviceError      access logs cannot be read, or say nothing
    +-- AuditError       a cache could not be compared with its database
    +-- ConfigError      a setting is wrong; the message names its key

Declared Hive exceptions are reply values, not exceptions here. A bug is an AssertionError. Low-level exceptions are
translated once, at the module that touches the foreign library, with `raise ... from cause`.
This module imports nothing of the package.
"""

from __future__ import annotations

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""


def one_line(error: Exception | str) -> str:
    """An error as the command line tells it."""
    return f"hms-cache-proxy: {' '.join(str(error).split())}"


class ProxyError(Exception):
    """Root of all errors that this package raises on purpose."""


class WireError(ProxyError):
    """The peer's bytes break the protocol; `method` and `offset` (in the message) where they are known."""

    def __init__(self, message: str, *, method: str | None = None, offset: int | None = None) -> None:
        super().__init__(message)
        self.method = method
        self.offset = offset


class LimitError(WireError):
    """A length, size or depth from the peer is over the setting `limit`; `size` is what it asked for."""

    def __init__(
        self,
        message: str,
        *,
        limit: str,
        size: int | None = None,
        method: str | None = None,
        offset: int | None = None,
    ) -> None:
        super().__init__(message, method=method, offset=offset)
        self.limit = limit
        self.size = size


class WriteIdsError(WireError):
    """A text is no list of write ids or transactions as Hive writes it, or a list cannot be changed as asked."""


class UpstreamError(ProxyError):
    """A metastore did not do what was asked; `sent` tells whether it may have seen the request."""

    def __init__(self, message: str, *, uri: str | None = None, method: str | None = None, sent: bool = False) -> None:
        super().__init__(message)
        self.uri = uri
        self.method = method
        self.sent = sent


class StoreError(ProxyError):
    """The backing database could not be read, or its schema is not one that is known."""


class LogClosed(StoreError):
    """A metastore answers, but not to questions about its notification log: without it nothing can be followed."""


class Unfit(StoreError):
    """An object has a form that cannot be held without loss: it is left out, everything else goes on."""


class CacheError(ProxyError):
    """The shared cache cannot be used; what it would have answered goes upstream."""


class CacheFull(CacheError):
    """The cache has reached `limit` bytes: stop admitting."""

    def __init__(self, message: str, *, limit: int | None = None) -> None:
        super().__init__(message)
        self.limit = limit


class SnapshotError(ProxyError):
    """A snapshot of a catalog in files cannot be made, or must not be used."""


class AdviceError(ProxyError):
    """Access logs, or what is to be known beside them, cannot be read, or are empty."""


class AuditError(ProxyError):
    """A cache could not be compared with its database; nothing is known about it."""


class ConfigError(ProxyError):
    """A setting is wrong; `key` is its name as in the TOML file (dotted), None when no single key is at fault."""

    def __init__(self, message: str, *, key: str | None = None) -> None:
        super().__init__(message)
        self.key = key


def exit_code(error: ProxyError) -> int:
    """Of a command that ends with it."""
    return 2 if isinstance(error, ConfigError) else 1
