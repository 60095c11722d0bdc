"""What a cache file belongs to, as one row in JSON: the store's identity, the scope (include, exclude) and the format.

Job: say why a file does not belong to this proxy. Must not know LMDB. Owner: the follower.
"""

from __future__ import annotations

import json
from dataclasses import asdict

from hms_cache_proxy.cache.layout import FORMAT
from hms_cache_proxy.store.protocol import StoreIdentity

WORDS = {
    "database_uuid": "of another metastore database",
    "schema_version": "of another schema version",
    "hive_line": "of another Hive version",
    "binary_collation": "of a database with another collation",
    "exact_text": "of a database that compares text otherwise",
    "exact": "filled from another kind of store",
}
"""What a cache file is if this field of the store's identity differs."""

_WORDS = {"format": "of another format version", **WORDS, "scope": "of another include/exclude setting"}


def identity_row(identity: StoreIdentity, scope: str) -> bytes:
    """The row of a cache of this store and scope."""
    return json.dumps({"format": FORMAT, **asdict(identity), "scope": scope}, sort_keys=True).encode()


def identity_unpack(row: bytes) -> StoreIdentity:
    """The store's identity in this row."""
    found = json.loads(row)
    return StoreIdentity(**{name: found[name] for name in StoreIdentity.__dataclass_fields__})


def mismatch(found: bytes, wanted: bytes) -> str | None:
    """Why a file with the row `found` is not the wanted one; None if it is."""
    if found == wanted:
        return None
    try:
        have = json.loads(found)
    except ValueError:
        return "its identity record is damaged"
    want = json.loads(wanted)
    for name, words in _WORDS.items():
        if have.get(name) != want[name]:
            return f"it is {words} ({name} {have.get(name)!r}, now {want[name]!r})"
    return "its identity record is damaged"
