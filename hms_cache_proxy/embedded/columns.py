"""Which columns a table may have, and which changes of their types are refused.

Job: do as MetaStoreUtils.validateTblColumns and ColumnType.areColTypesCompatible of Hive 4.2. Must not know: tables.
Owner: any thread; no state.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from hms_cache_proxy.embedded.failures import invalid_operation, meta
from hms_cache_proxy.wire.spec import Struct

_NUMBERS = ["tinyint", "smallint", "int", "bigint", "float", "double"]
_PRIMITIVE = frozenset(
    "void boolean tinyint smallint int bigint float double string date datetime timestamp timestamptz decimal binary"
    " interval_year_month interval_day_time char varchar variant".split()
) | {"timestamp with local time zone", "timestamp with time zone", "timestamplocaltz"}
_TEXT = ("string", "varchar", "char")
_COLLECTION = ("array", "map", "struct", "uniontype")
_SIMPLE = re.compile(r"(array|map|struct|uniontype)<.+>", re.DOTALL)


def problem(columns: Sequence[Struct] | None) -> str | None:
    """Why these columns are invalid; None if they are valid. MetaException for a column without a name or type."""
    for column in columns or ():
        if column.name is None or column.type is None:
            raise meta("java.lang.NullPointerException: a column has no name or no type")
        if not is_type(column.type):
            return f"Invalid column type: {column.type}"
    return None


def is_type(text: str) -> bool:
    """Is it a type of Hive? As in Hive's check, every word in it has to be known."""
    if text in ("unknown", "<unknown>"):
        return True
    if _SIMPLE.fullmatch(text):
        return True
    base = re.sub(r"\(.*\)", "", text).strip().lower()
    return base in _PRIMITIVE


def check_change(before: Sequence[Struct], after: Sequence[Struct]) -> None:
    """InvalidOperationException for columns whose old data cannot be read as the new type."""
    wrong = [
        new.name for old, new in zip(before, after, strict=False) if not _compatible(old.type.lower(), new.type.lower())
    ]
    if wrong:
        listed = ",".join(wrong)
        raise invalid_operation(
            "The following columns have types incompatible with the existing columns in their respective positions :"
            f"\n{listed}"
        )


def _compatible(old: str, new: str) -> bool:
    if old == new:
        return True
    old_base, new_base = _base(old), _base(new)
    if old_base in _COLLECTION or new_base in _COLLECTION:
        return old_base == new_base and old_base != "uniontype"
    if old_base == new_base:
        return True
    if old_base == "void":
        return True
    if new_base in _TEXT:
        return old_base != "binary"
    if old_base in _NUMBERS and new_base in _NUMBERS:
        return _NUMBERS.index(old_base) <= _NUMBERS.index(new_base)
    if old_base in ("tinyint", "smallint", "int", "bigint", "string") and new_base == "decimal":
        return True
    if old_base == "string" and new_base == "double":
        return True
    return old_base == "decimal" and new_base in ("float", "double") or (old_base, new_base) == ("date", "timestamp")


def _base(text: str) -> str:
    return re.split(r"[<(]", text, maxsplit=1)[0].strip()
