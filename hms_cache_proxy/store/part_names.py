"""Makes the name of a partition from its keys and values: `key=value/key=value`, as in PARTITIONS.PART_NAME.

Job: do as Hive's FileUtils.makePartName, which writes %XX for a character that a path cannot have. The results were
compared with metastores for every ASCII character. Must not know: tables, messages, the cache. Owner: any process; no
state.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from hms_cache_proxy.errors import WireError

DEFAULT_PARTITION = b"__HIVE_DEFAULT_PARTITION__"
"""The name of an empty partition value. Fixed where Hive makes the name of a partition."""

_ESCAPED = bytes([*range(1, 0x20), 0x7F]) + b"\"#%'*/:=?[\\]^{"
_NEEDS_ESCAPE = re.compile(b"[" + re.escape(_ESCAPED) + b"]")
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")


def partition_name(keys: Sequence[bytes], values: Sequence[bytes]) -> bytes:
    """`key=value/key=value` with Hive's escapes (FileUtils.makePartName)."""
    if len(keys) != len(values) or not keys:
        raise WireError(f"{len(values)} values for {len(keys)} partition keys")
    pairs = zip(keys, values, strict=True)
    return b"/".join(escape_or_default(_lower(key)) + b"=" + escape_or_default(value) for key, value in pairs)


def is_name(name: bytes, keys: Sequence[bytes]) -> bool:
    """Is this the exact name of a partition with these keys? Clients may spell names differently, and metastores accept
    that."""
    parts = [part.partition(b"=") for part in name.split(b"/")]
    if len(parts) != len(keys):
        return False
    return partition_name(keys, [unescape(value) for _, _, value in parts]) == name


def escape(part: bytes) -> bytes:
    """A key or a value, as written in a name."""
    if _NEEDS_ESCAPE.search(part) is None:
        return part
    return _NEEDS_ESCAPE.sub(lambda found: b"%%%02X" % found[0][0], part)


def escape_or_default(part: bytes) -> bytes:
    """The same, where an empty one is written as the default partition."""
    return escape(part) if part else DEFAULT_PARTITION


def unescape(part: bytes) -> bytes:
    """The inverse of `escape`."""
    return _ESCAPE.sub(lambda found: bytes([int(found[1], 16)]), part)


def _lower(key: bytes) -> bytes:
    return key.lower() if key.isascii() else key.decode("utf-8", "replace").lower().encode("utf-8")
