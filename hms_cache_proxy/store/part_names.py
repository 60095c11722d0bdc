"""How a partition's name is made of its keys and values: `key=value/key=value`, as PARTITIONS.PART_NAME holds it.

Job: Hive's FileUtils.makePartName. Must not know: tables, messages, the cache. Owner: any process; no state.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from hms_cache_proxy.errors import WireError

DEFAULT_PARTITION = b"__HIVE_DEFAULT_PARTITION__"
"""What an empty partition value is called; fixed at the place where Hive makes a partition's name."""

_ESCAPED = frozenset(range(1, 0x20)) | frozenset(b"\"#%'*/:=?\\\x7f{[]^")
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")
_ESCAPES = [bytes([c]) if c not in _ESCAPED else b"%%%02X" % c for c in range(256)]


def partition_name(keys: Sequence[bytes], values: Sequence[bytes]) -> bytes:
    """`key=value/key=value` with the escapes of Hive (FileUtils.makePartName): what PARTITIONS.PART_NAME holds."""
    if len(keys) != len(values) or not keys:
        raise WireError(f"{len(values)} values for {len(keys)} partition keys")
    return b"/".join(escape(_lower(key)) + b"=" + escape(value) for key, value in zip(keys, values, strict=True))


def is_name(name: bytes, keys: Sequence[bytes]) -> bool:
    """Is this a partition name of these keys? Clients may spell names in other ways, which a metastore understands."""
    parts = [part.partition(b"=") for part in name.split(b"/")]
    if len(parts) != len(keys):
        return False
    return partition_name(keys, [unescape(value) for _, _, value in parts]) == name


def unescape(part: bytes) -> bytes:
    """The inverse of `escape`, but for the default partition's name."""
    return _ESCAPE.sub(lambda found: bytes([int(found[1], 16)]), part)


def _lower(key: bytes) -> bytes:
    return key.lower() if key.isascii() else key.decode("utf-8", "replace").lower().encode("utf-8")


def escape(part: bytes) -> bytes:
    """One side of `key=value`; an empty one becomes the default partition's name."""
    if not part:
        return DEFAULT_PARTITION
    return b"".join([_ESCAPES[c] for c in part])
