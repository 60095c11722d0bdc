"""Reads the beginning of a message that is too large to be read whole.

Job: decode the fields of a struct into a projected class, as far as there are bytes; of a list, only the first element.
Must not know: methods. Owner: any process; no state.
"""

from __future__ import annotations

from struct import Struct as Packer
from struct import error as PackerError
from typing import Any

from hms_cache_proxy.errors import WireError
from hms_cache_proxy.wire.spans import end_of_value
from hms_cache_proxy.wire.spec import Struct, TType

_FIELD = Packer("!Bh")
_LENGTH = Packer("!i")
_LIST = Packer("!Bi")
MOST_ELEMENTS = 1000
"""A longer list is not walked to its end (1 us for each element): the beginning ends there."""


def decode_beginning(cls: type[Struct], buf: bytes, offset: int = 0) -> Struct:
    """An object of cls with the fields that are there; decoding ends at cut or malformed bytes."""
    found = cls()
    known = {row[0]: row for row in cls.thrift_spec if row is not None}
    at = offset
    try:
        while buf[at] != TType.STOP:
            ttype, field_id = _FIELD.unpack_from(buf, at)
            row = known.get(field_id)
            if row is not None and row[1] == ttype:
                value, whole = _value(buf, at + 3, row)
                setattr(found, row[2], value)
                if not whole:
                    break
            if _is_long(buf, at + 3, ttype):
                break
            at = end_of_value(buf, at + 3, ttype)
    except (WireError, PackerError, IndexError):
        pass  # the bytes end here
    return found


def _value(buf: bytes, at: int, row: tuple[Any, ...]) -> tuple[Any, bool]:
    """The value, and whether it is complete. Reads only the types that contain names: strings, structs, lists."""
    _, ttype, _, inner, _ = row
    if ttype == TType.STRING:
        end = at + 4 + _LENGTH.unpack_from(buf, at)[0]
        return (buf[at + 4 : end], True) if end <= len(buf) else (None, False)
    if ttype == TType.STRUCT:
        return decode_beginning(inner[0], buf, at), _complete(buf, at, ttype)
    if ttype == TType.LIST and inner[0] == TType.STRUCT:
        count = _LIST.unpack_from(buf, at)[1]
        first = [decode_beginning(inner[1][0], buf, at + _LIST.size)] if count > 0 else []
        return first, _complete(buf, at, ttype)
    return None, _complete(buf, at, ttype)


def _is_long(buf: bytes, at: int, ttype: int) -> bool:
    if ttype == TType.MAP:
        at += 1  # a map begins with two types, of its keys and of its values
    elif ttype not in (TType.LIST, TType.SET):
        return False
    return bool(_LIST.unpack_from(buf, at)[1] > MOST_ELEMENTS)


def _complete(buf: bytes, at: int, ttype: int) -> bool:
    if _is_long(buf, at, ttype):
        return False
    try:
        end_of_value(buf, at, ttype)
    except WireError:
        return False
    return True
