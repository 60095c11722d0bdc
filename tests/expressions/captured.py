"""Expressions of Hive's planner, and what a Hive 4.2.0 metastore over PostgreSQL answered.

Job: read `captured.json.xz`, and write an expression as Hive does. `vectors`: 591 different ones that HiveServer2 4.0.1
and 4.2.0 sent, and 294 that 4.2.0's planner wrote (capture.py); `mutated`: 81 with bytes changed, and the filter that
Hive's own classes make of them; `tables`: keys and names of partitions. Must not know: readers.
"""

from __future__ import annotations

import base64
import json
import lzma
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from hms_cache_proxy.expressions.tree import (
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
    Null,
    Operand,
    Same,
)

_FILE = Path(__file__).with_name("captured.json.xz")
_SUFFIX = {"tinyint": "Y", "smallint": "S", "bigint": "L", "double": "D"}
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class Captured:
    """`selected`: numbers of the partitions in the table's list, or the words with which it was refused."""

    hive: str
    table: str
    expression: bytes
    filter: str
    selected: list[int] | str
    unknown: bool


@dataclass(frozen=True, slots=True)
class CapturedTable:
    """Keys with their types, and partitions in order."""

    keys: tuple[tuple[bytes, bytes], ...]
    names: list[bytes]


@cache
def _everything() -> dict[str, Any]:
    with lzma.open(_FILE) as file:
        found: dict[str, Any] = json.load(file)
    return found


@cache
def vectors() -> list[Captured]:
    """Those with an answer."""
    return [
        Captured(hive, table, base64.b64decode(text), as_filter, selected, bool(unknown))
        for hive, table, text, as_filter, selected, unknown in _everything()["vectors"]
    ]


def add_vectors(found: Sequence[Sequence[Any]]) -> int:
    """Those that are not there, each as the file has it: release, table, expression, filter, selected, unknown; their
    number."""
    everything = _everything()
    there = {(release, table, expression) for release, table, expression, *_ in everything["vectors"]}
    new = [each for each in found if tuple(each[:3]) not in there]
    with lzma.open(_FILE, "wt", preset=9 | lzma.PRESET_EXTREME) as file:
        json.dump({**everything, "vectors": [*everything["vectors"], *new]}, file)
    return len(new)


def mutated() -> list[tuple[bytes, str]]:
    """Bytes, and the filter that Hive makes of them."""
    return [(base64.b64decode(text), as_filter) for text, as_filter in _everything()["mutated"]]


def tables() -> dict[str, CapturedTable]:
    """By their names."""
    return {
        name: CapturedTable(
            tuple((key.encode(), kind.encode()) for key, kind in table["keys"]),
            [each.encode() for each in table["names"]],
        )
        for name, table in _everything()["tables"].items()
    }


def written(node: Expression) -> str:
    """The filter that Hive writes of it."""
    if isinstance(node, KeyColumn):
        return node.name
    if isinstance(node, Compared):
        return f"({_term(node.left)} {node.op.replace('!=', '<>')} {_term(node.right)})"
    if isinstance(node, Combined):
        return f"({f' {node.how} '.join(map(written, node.terms))})"
    if isinstance(node, Not):
        return f"(not {written(node.term)})"
    if isinstance(node, Null):
        if isinstance(node.subject, FunctionCall):
            return f"{_call(node.subject)} is {'not ' if node.negated else ''}null"
        return f"({node.subject.name} {'<>' if node.negated else '='} '__HIVE_DEFAULT_PARTITION__')"
    if isinstance(node, Like):
        return f"({_term(node.subject)} like '{node.pattern}')"
    if isinstance(node, Same):
        return f"({_term(node.subject)} IS NOT DISTINCT FROM {_constant(node.value)})"
    if isinstance(node, Between):
        bounds = f"{_constant(node.low)} AND {_constant(node.high)}"
        return f"{_term(node.subject)}{' NOT' if node.inverted else ''} BETWEEN {bounds}"
    if isinstance(node, Among):
        return f"({_term(node.subject)}) IN ({', '.join(map(_constant, node.values))})"
    if isinstance(node, AmongRows):
        rows = ", ".join(f"struct({_listed(map(_constant, row))})" for row in node.rows)
        return f"(struct({_listed(column.name for column in node.columns)})) IN ({rows})"
    assert isinstance(node, Comparison)
    key, value, sign = _term(node.subject), _constant(node.value), node.op.replace("!=", "<>")
    return f"({value} {_FLIPPED.get(sign, sign)} {key})" if node.flipped else f"({key} {sign} {value})"


_SIGNS = {"OPPlus": "+", "OPMinus": "-", "OPMultiply": "*", "OPMod": "%"}
_CASTS = {"ToDate": "DATE", "ToString": "STRING", "Timestamp": "TIMESTAMP"}
_NAMES = {
    "Date": "to_date",
    "DateAdd": "date_add",
    "DateSub": "date_sub",
    "UDFDayOfMonth": "day",
    "UDFRegExpReplace": "regexp_replace",
    "UDFSubstr": "substr",
}


def _term(term: Operand) -> str:
    if isinstance(term, KeyColumn):
        return term.name
    return _constant(term) if isinstance(term, Constant) else _call(term)


def _call(call: FunctionCall) -> str:
    name = call.function.rpartition(".")[2].removeprefix("GenericUDF")
    arguments = [_term(each) for each in call.arguments]
    if name in _SIGNS:
        return f"({f' {_SIGNS[name]} '.join(arguments)})"
    if name in _CASTS:
        return f"CAST( {arguments[0]} AS {_CASTS[name]})"
    if name == "Coalesce":
        return f"COALESCE({','.join(arguments)})"
    if not name.startswith("UDFTo"):
        name = _NAMES.get(name) or name.removeprefix("UDF").lower()
    return f"{name}({', '.join(arguments)})"


def _listed(words: Iterable[str]) -> str:
    return ",".join(words)


def _constant(constant: Constant) -> str:
    value, kind = constant.value, constant.type.partition("(")[0]
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return f"TIMESTAMP'{_java_time(value)}'"
    if isinstance(value, date):
        return f"DATE'{value.isoformat()}'"
    if isinstance(value, str):
        return f"'{value}'"
    if isinstance(value, float):
        return f"{_java(value)}D"
    return f"{value:f}" if kind == "decimal" else f"{value}{_SUFFIX.get(kind, '')}"


def _java_time(value: datetime) -> str:
    fraction = f".{value.microsecond:06}".rstrip("0") if value.microsecond else ""
    return f"{value:%Y-%m-%d %H:%M:%S}{fraction}"


def _java(value: float) -> str:
    """As Java writes a number."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    digits, _, exponent = f"{Decimal(repr(value)):e}".partition("e")
    digits = digits.rstrip("0")
    return f"{digits}{'0' if digits.endswith('.') else ''}E{int(exponent)}"
