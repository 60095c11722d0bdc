"""Decodes the bytes of an expression to its tree.

Job: `decode(data)` checks that Kryo's objects are an expression of the kinds in tree.py: each constant has the class of
its type, each comparison has its own name, each function is in functions.py. Must not know: tables, partitions.
Source: the classes of Hive 4.2 (ExprNodeDesc and related ones), tested with changed bytes.

It also refuses empty texts (except as arguments of functions); texts with quotes, backslashes or NUL, which Hive writes
into its filter unescaped; nulls, NaN and infinities; dates before the Gregorian calendar; patterns beyond 16 bits; and
keys that are words of the filter language. Owner: any thread; the last results are cached by their bytes.
"""

from __future__ import annotations

import math
import re
from datetime import date, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

from hms_cache_proxy.filters.tree import Op
from hms_cache_proxy.filters.words import KEYWORDS

from . import classes as c
from .functions import FUNCTIONS
from .kryo import Boxed, Instance, read
from .tree import (
    FIRST_YEAR,
    MOST_DIGITS,
    Among,
    AmongRows,
    Between,
    Combined,
    Compared,
    Comparison,
    Constant,
    Expression,
    FunctionCall,
    KeyColumn,
    Like,
    Not,
    NotUnderstood,
    Null,
    Operand,
    Plain,
    Same,
    Subject,
    base,
)
from .values import numbers

REMEMBERED: Final = 512
REMEMBERED_BYTES: Final = 8 << 10
"""Longer expressions are decoded each time."""
MOST_VALUES: Final = 500
"""Values of one IN: longer lists were not tested with metastores and databases."""
_KEY: Final = re.compile("[a-z][a-z0-9_]*")
_NO_KEYS: Final = frozenset(word.lower() for word in KEYWORDS) | {"values"}
_UNFIT: Final = re.compile(r"['\\\0]|\A\Z")
_LAST_OF_16_BITS: Final = "\uffff"
_BOXED: Final = {
    "boolean": "boolean",
    "tinyint": "byte",
    "smallint": "short",
    "int": "int",
    "bigint": "long",
    "double": "double",
}
_SIMPLE: Final = frozenset((*_BOXED, "string", "date", "timestamp", "float"))
_OPS: Final[dict[str, Op]] = {"=": "=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_FLIPPED: Final[dict[Op, Op]] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def decode(data: bytes) -> Expression:
    """The tree of an expression. Raises NotUnderstood."""
    found = _remembered(data) if len(data) <= REMEMBERED_BYTES else _decoded(data)
    if isinstance(found, str):
        raise NotUnderstood(found)
    return found


def _decoded(data: bytes) -> Expression | str:
    try:
        return _expression(read(data))
    except NotUnderstood as refused:
        return str(refused)


_remembered = lru_cache(maxsize=REMEMBERED)(_decoded)


def _expression(found: Any) -> Expression:
    if isinstance(found, Instance):
        if found.cls == c.COLUMN:
            return _column(found)
        if found.cls == c.FUNCTION:
            return _called(found.fields)
    raise NotUnderstood("no condition")


def _called(fields: dict[str, Any]) -> Expression:
    function, given = fields["genericUDF"], fields["children"]
    if not isinstance(function, Instance) or given is None or _type(fields["typeInfo"]) != "boolean":
        raise NotUnderstood("no condition")
    name, count = function.cls, len(given)
    if name in (c.AND, c.OR) and count > 1:
        return Combined(tuple(map(_expression, given)), "and" if name == c.AND else "or")
    if name == c.NOT and count == 1:
        return Not(_expression(given[0]))
    if name in (c.NULL, c.NOT_NULL) and count == 1:
        return Null(_subject(given[0]), name == c.NOT_NULL)
    if name in c.COMPARISONS and count == 2 and function.fields["opDisplayName"] == c.COMPARISONS[name]:
        _compares(function.fields)
        return _comparison(c.COMPARISONS[name], given[0], given[1])
    if name == c.BETWEEN and count == 4:
        return _between(function.fields, given)
    if name == c.AMONG and count > 1:
        return _among(given[0], given[1:])
    if name == c.BRIDGE and function.fields["udfClassName"] == c.LIKE and count == 2:
        return _like(function.fields, given)
    raise NotUnderstood(f"{name.rpartition('.')[2]} of {count}")


def _comparison(sign: str, first: Any, second: Any) -> Expression:
    left, right = _term(first), _term(second)
    if isinstance(left, Constant):
        if isinstance(right, Constant) or sign not in _OPS:
            raise NotUnderstood("a constant before its key")
        op = _OPS[sign]
        return Comparison(right, _FLIPPED.get(op, op), left, flipped=True)
    if isinstance(right, Constant):
        return Comparison(left, _OPS[sign], right) if sign in _OPS else Same(left, right)
    if sign not in _OPS:
        raise NotUnderstood("two of which both may be null")
    return Compared(left, _OPS[sign], right)


def _compares(fields: dict[str, Any]) -> None:
    inspector = fields["compareOI"]
    if inspector is not None and (not isinstance(inspector, Instance) or inspector.cls != c.INSPECTOR):
        raise NotUnderstood("a comparison by something else")


def _between(fields: dict[str, Any], given: list[Any]) -> Between:
    for name, sign in (("egt", ">="), ("elt", "<=")):
        part = fields[name]
        if not isinstance(part, Instance) or c.COMPARISONS.get(part.cls) != sign:
            raise NotUnderstood("BETWEEN of other parts")
        _compares(part.fields)
    inverted = _constant(given[0])
    if inverted.type != "boolean":
        raise NotUnderstood("BETWEEN without its first argument")
    return Between(_subject(given[1]), _constant(given[2]), _constant(given[3]), bool(inverted.value))


def _like(fields: dict[str, Any], given: list[Any]) -> Like:
    pattern = _constant(given[1])
    if fields["udfName"] != "like" or not fields["isOperator"] or pattern.type != "string":
        raise NotUnderstood("LIKE in another form")
    text = str(pattern.value)
    if max(text) > _LAST_OF_16_BITS:  # Hive matches the halves of such a character one by one
        raise NotUnderstood("a pattern beyond 16 bits")
    return Like(_subject(given[0]), text)


def _among(subject: Any, given: list[Any]) -> Expression:
    if len(given) > MOST_VALUES:
        raise NotUnderstood("too many values")
    if not _is_struct(subject):
        return Among(_subject(subject), tuple(map(_constant, given)))
    columns = tuple(map(_column, _members(subject)))
    rows = tuple(tuple(_row(each)) for each in given)
    if len(columns) < 2 or any(len(row) != len(columns) for row in rows):
        raise NotUnderstood("rows of another length")
    return AmongRows(columns, rows)


def _is_struct(found: Any) -> bool:
    if not isinstance(found, Instance) or found.cls != c.FUNCTION:
        return False
    function = found.fields["genericUDF"]
    return isinstance(function, Instance) and function.cls == c.ROW


def _members(found: Any) -> list[Any]:
    """The arguments of a call of `struct`."""
    if isinstance(found, Instance) and found.cls == c.FUNCTION:
        function, given = found.fields["genericUDF"], found.fields["children"]
        if isinstance(function, Instance) and function.cls == c.ROW and given:
            members: list[Any] = given
            if len(_struct(found.fields["typeInfo"])) != len(members):
                raise NotUnderstood("a struct of another type")
            return members
    raise NotUnderstood("IN of something else")


def _row(found: Any) -> list[Constant]:
    if isinstance(found, Instance) and found.cls == c.CONSTANT:
        kinds, values = _struct(found.fields["typeInfo"]), found.fields["value"]
        if not isinstance(values, list) or len(values) != len(kinds):
            raise NotUnderstood("a struct of another type")
        return [Constant(kind, _value(kind, value)) for kind, value in zip(kinds, values, strict=True)]
    return [_constant(each) for each in _members(found)]


def _term(found: Any) -> Operand:
    return _constant(found) if isinstance(found, Instance) and found.cls == c.CONSTANT else _subject(found)


def _subject(found: Any) -> Subject:
    if isinstance(found, Instance) and found.cls == c.FUNCTION:
        return _call(found.fields)
    return _column(found)


def _call(fields: dict[str, Any]) -> FunctionCall:
    """A call of a function that the table has, by the name that it has there."""
    called, given = fields["genericUDF"], fields["children"]
    if not isinstance(called, Instance) or not given:
        raise NotUnderstood("no function")
    bridged = called.cls == c.BRIDGE
    cls = called.fields["udfClassName"] if bridged else called.cls
    function = FUNCTIONS.get(cls)
    if function is None or bridged is not bool(function.names):
        raise NotUnderstood(f"function {str(cls)[:200]!r}")
    if bridged and (called.fields["udfName"] not in function.names or called.fields["isOperator"]):
        raise NotUnderstood("a function with another name")
    if function.factor and called.fields["signModifier"] != function.factor:
        raise NotUnderstood("a function with another factor")
    if function.sign and called.fields["opDisplayName"] != function.sign:
        raise NotUnderstood("an operator with another sign")
    arguments = tuple(map(_argument, given))
    if all(isinstance(each, Constant) for each in arguments):
        raise NotUnderstood("a function of constants")
    return FunctionCall(cls, arguments, _type(fields["typeInfo"]))


def _argument(found: Any) -> Operand:
    """Of a function, in which Hive finds no filter, whatever its texts are; an empty one is usual there."""
    if isinstance(found, Instance) and found.cls == c.CONSTANT and found.fields["value"] == "":
        if _type(found.fields["typeInfo"]) != "string":
            raise NotUnderstood("an empty text of another type")
        return Constant("string", "")
    return _term(found)


def _column(found: Any) -> KeyColumn:
    if not isinstance(found, Instance) or found.cls != c.COLUMN:
        raise NotUnderstood("something else in place of a key")
    name = found.fields["column"]
    if not isinstance(name, str) or _KEY.fullmatch(name) is None or name in _NO_KEYS:
        raise NotUnderstood("a key with another name")
    return KeyColumn(name, _type(found.fields["typeInfo"]))


def _constant(found: Any) -> Constant:
    if not isinstance(found, Instance) or found.cls != c.CONSTANT:
        raise NotUnderstood("something else in place of a constant")
    kind = _type(found.fields["typeInfo"])
    return Constant(kind, _value(kind, found.fields["value"]))


# -- types and values ------------------------------------------------------------------------------------------------


def _type(found: Any) -> str:
    """The name of a type, which must agree with its class and its numbers."""
    if isinstance(found, Instance):
        fields, cls = found.fields, found.cls
        if cls == c.PRIMITIVE_TYPE and fields["typeName"] in _SIMPLE:
            return str(fields["typeName"])
        if cls in (c.CHAR_TYPE, c.VARCHAR_TYPE) and fields["length"] > 0:
            simple = "char" if cls == c.CHAR_TYPE else "varchar"
            return _named(fields, simple, f"{simple}({fields['length']})")
        if cls == c.DECIMAL_TYPE and 0 <= fields["scale"] <= fields["precision"] <= MOST_DIGITS:
            return _named(fields, "decimal", f"decimal({fields['precision']},{fields['scale']})")
    raise NotUnderstood("a type that is not known")


def _named(fields: dict[str, Any], simple: str, whole: str) -> str:
    if fields["typeName"] not in (simple, whole):
        raise NotUnderstood("a type with another name")
    return whole


def _struct(found: Any) -> list[str]:
    """The types of a struct's members."""
    if not isinstance(found, Instance) or found.cls != c.STRUCT_TYPE:
        raise NotUnderstood("no struct")
    names, kinds = found.fields["allStructFieldNames"], found.fields["allStructFieldTypeInfos"]
    if not names or not kinds or len(names) != len(kinds) or None in names:
        raise NotUnderstood("a struct without members")
    return [_type(kind) for kind in kinds]


def _value(kind: str, found: Any) -> Plain:
    """A value, which must have the class of its type."""
    simple = base(kind)
    if isinstance(found, Boxed):
        if _BOXED.get(simple) == found.kind and (simple != "double" or _usual(float(found.value))):
            return found.value
    elif isinstance(found, str):
        if simple == "string":
            return _text(found)
    elif isinstance(found, Instance):
        if simple == "date" and found.cls == c.DATE:
            return _day(found.fields["localDate"])
        if simple == "timestamp" and found.cls == c.TIMESTAMP:
            return _moment(found.fields["localDateTime"])
        if simple == "decimal" and found.cls == c.DECIMAL:
            return _fitting(kind, _decimal(found.fields))
        if simple in ("char", "varchar") and found.cls == (c.CHAR if simple == "char" else c.VARCHAR):
            return _sized(kind, simple, found.fields["value"])
    raise NotUnderstood(f"a constant of another class than {simple}")


def _usual(value: float) -> bool:
    """Is it a number that Java and Python order alike?"""
    return math.isfinite(value) and not (value == 0 and math.copysign(1, value) < 0)


def _text(found: Any) -> str:
    if not isinstance(found, str) or _UNFIT.search(found):
        raise NotUnderstood("a text with quotes or backslashes, or none")
    return found


def _sized(kind: str, simple: str, found: Any) -> str:
    text, size = _text(found), int(kind[len(simple) + 1 : -1])
    units = len(text.encode("utf-16-le")) // 2
    if units > size or (simple == "char" and units != size):
        raise NotUnderstood("a text of another length")
    return text


def _day(found: Any) -> date:
    if not isinstance(found, date) or found.year < FIRST_YEAR:
        raise NotUnderstood("a date before the calendar")
    return found


def _moment(found: Any) -> datetime:
    if not isinstance(found, datetime) or found.year < FIRST_YEAR:
        raise NotUnderstood("a time before the calendar")
    return found


def _fitting(kind: str, value: Decimal) -> Decimal:
    """A decimal, which must have room in its type: Hive rounds another one, or makes it null."""
    precision, scale = numbers(kind)
    exponent = value.as_tuple().exponent
    if abs(value) >= Decimal(10) ** (precision - scale) or not isinstance(exponent, int) or -exponent > scale:
        raise NotUnderstood("a decimal beyond its type")
    return value


def _decimal(fields: dict[str, int]) -> Decimal:
    """A decimal of three words of sixteen digits, the lowest first. Hive stores no trailing zeros."""
    words = fields["fast2"], fields["fast1"], fields["fast0"]
    scale, sign = fields["fastScale"], fields["fastSignum"]
    if min(words) < 0 or max(words) >= 10**16 or fields["fastSerializationScale"] != -1:
        raise NotUnderstood("a decimal that is none")
    digits = (words[0] * 10**16 + words[1]) * 10**16 + words[2]
    whole = max(0, len(str(digits)) - scale) if digits else 0
    right = 0 <= scale <= MOST_DIGITS and fields["fastIntegerDigitCount"] == whole and digits < 10**MOST_DIGITS
    if not right or sign not in ((1, -1) if digits else (0,)) or (scale and digits % 10 == 0):
        raise NotUnderstood("a decimal that is none")
    return Decimal(((sign < 0) * 1, tuple(map(int, str(digits))), -scale))
