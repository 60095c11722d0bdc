"""Makes the name of a partition from its keys and values: `key=value/key=value`, as in PARTITIONS.PART_NAME.

Job: Hive's FileUtils.makePartName. Must not know: tables, messages, the cache. Owner: any process; no state.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from hms_cache_proxy.errors import WireError

DEFAULT_PARTITION = b"__HIVE_DEFAULT_PARTITION__"
"""The name of an empty partition value. Fixed where Hive makes the name of a partition."""

_ESCAPED = frozenset(range(1, 0x20)) | frozenset(b"\"#%'*/:=?\\\x7f{[]^")
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")
_ESCAPES = [bytes([c]) if c not in _ESCAPED else b"%%%02X" % c for c in range(256)]


def partition_name(keys: Sequence[bytes], values: Sequence[bytes]) -> bytes:
    """`key=value/key=value` with Hive's escapes (FileUtils.makePartName)."""
    if len(keys) != len(values) or not keys:
        raise WireError(f"{len(values)} values for {len(keys)} partition keys")
    return b"/".join(escape(_lower(key)) + b"=" + escape(value) for key, value in zip(keys, values, strict=True))


def is_name(name: bytes, keys: Sequence[bytes]) -> bool:
    """Is this the exact name of a partition with these keys? Clients may spell names differently, and metastores accept
    that."""
    parts = [part.partition(b"=") for part in name.split(b"/")]
    if len(parts) != len(keys):
        return False
    return partition_name(keys, [unescape(value) for _, _, value in parts]) == name


def unescape(part: bytes) -> bytes:
    """The inverse of `escape`, except for the default partition's name."""
    return _ESCAPE.sub(lambda found: bytes([int(found[1], 16)]), part)


def _lower(key: bytes) -> bytes:
    return key.lower() if key.isascii() else key.decode("utf-8", "replace").lower().encode("utf-8")


def escape(part: bytes) -> bytes:
    """Escapes one side of `key=value`. An empty one becomes the default partition's name."""
    if not part:
        return DEFAULT_PARTITION
    return b"".join([_ESCAPES[c] for c in part])
