"""The parameter COLUMN_STATS_ACCURATE: it says whether the basic statistics are accurate, and of which columns the
statistics are.

Job: read and write it as StatsSetupConst.ColumnStatsAccurate of Hive 4.2 does, in JSON. Must not know: what a call
means.

Invariant: text that Hive cannot parse counts as absent, except `true`: Hive 1 wrote it for accurate basic statistics.
Owner: any thread; no state.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from hms_cache_proxy.wire.spec import Struct

ACCURATE = "COLUMN_STATS_ACCURATE"
_BASIC, _COLUMNS = "BASIC_STATS", "COLUMN_STATS"


@dataclass(slots=True)
class Accurate:
    """The content of the parameter. A column with the value `false` is listed too."""

    basic: bool = False
    columns: dict[str, bool] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The parameter's value."""
        said: dict[str, object] = {_BASIC: "true"} if self.basic else {}
        if self.columns:
            said[_COLUMNS] = {name: str(value).lower() for name, value in sorted(self.columns.items())}
        return json.dumps(said, separators=(",", ":"), ensure_ascii=False)


def parsed(text: str | None) -> Accurate:
    """The content of a value of the parameter."""
    try:
        said = json.loads(text or "{}")
    except ValueError:
        return Accurate()
    if not isinstance(said, dict):
        return Accurate(basic=(text or "").lower() == "true")
    columns = said.get(_COLUMNS) or {}
    if set(said) - {_BASIC, _COLUMNS} or not isinstance(columns, dict):
        return Accurate()
    return Accurate(_is_true(said.get(_BASIC)), {name: _is_true(value) for name, value in columns.items()})


def _is_true(value: object) -> bool:
    return str(value).lower() == "true"


def columns_of(parameters: dict[str, str] | None) -> list[str]:
    """Columns whose statistics are accurate (getColumnsHavingStats)."""
    return sorted(parsed((parameters or {}).get(ACCURATE)).columns)


def set_basic(parameters: dict[str, str], *, right: bool) -> None:
    """Mark the basic statistics as accurate, or remove the parameter, with its columns too (setBasicStatsState)."""
    if right:
        state = parsed(parameters.get(ACCURATE))
        state.basic = True
        parameters[ACCURATE] = state.text
    else:
        parameters.pop(ACCURATE, None)


def add_columns(parameters: dict[str, str], names: Iterable[str], *, basic: bool = False) -> None:
    """Mark the statistics of these columns as accurate (setColumnStatsState); with `basic` also the basic ones."""
    state = parsed(parameters.get(ACCURATE))
    state.basic = state.basic or basic
    for name in names:
        state.columns.setdefault(name.lower(), True)
    parameters[ACCURATE] = state.text


def remove_columns(parameters: dict[str, str] | None, names: Iterable[str]) -> None:
    """Remove these columns from the parameter, if it is there (removeColumnStatsState)."""
    if parameters is None or ACCURATE not in parameters:
        return
    state = parsed(parameters[ACCURATE])
    for name in names:
        state.columns.pop(name.lower(), None)
    parameters[ACCURATE] = state.text


def stale_columns(before: Sequence[Struct], after: Sequence[Struct]) -> list[str]:
    """Columns that are gone or have another type, so that their statistics are wrong (findStaleColumns)."""
    types = {column.name.lower(): column.type.lower() for column in after}
    return [column.name for column in before if types.get(column.name) != column.type.lower()]
