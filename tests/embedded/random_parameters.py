"""Random changes of parameters, columns and statistics, and the values that all random steps take for them.

Job: as random_steps.py, which builds on it. Must not know: what a metastore answers.
"""

from __future__ import annotations

from typing import Any

from hms_cache_proxy.embedded.values import copy
from tests.embedded.differential import Step, struct
from tests.embedded.random_model import Model, Noted, name_of
from tests.embedded.scripts import field

ACCURATE = "COLUMN_STATS_ACCURATE"
DDL_TIME = "transient_lastDdlTime"
COLUMNS = (("a", "int"), ("b", "string"), ("c", "bigint"))
_PARAMETERS: dict[str, tuple[str, ...]] = {
    "k": ("v", "w"),
    "numRows": ("5", "0"),
    "rawDataSize": ("50",),
    "numFiles": ("1", "3"),
    "totalSize": ("7", "0"),
    "numFilesErasureCoded": ("0", "2"),
    ACCURATE: (
        '{"BASIC_STATS":"true"}',
        '{"BASIC_STATS":"true","COLUMN_STATS":{"a":"true","b":"true"}}',
        "true",
        "junk",
    ),
    "DO_NOT_UPDATE_STATS": ("true", "false"),
    "auto.purge": ("true", "false"),
    "skip.trash": ("true",),
}
_CONTEXT: dict[str, tuple[str, ...]] = {
    "STATS_GENERATED": ("TASK", "USER"),
    "DO_NOT_UPDATE_STATS": ("true", "TRUE"),
    "DO_NOT_POPULATE_QUICK_STATS": ("true",),
    "CASCADE": ("true",),
    "alterTableOpType": ("truncate", "ALTERLOCATION"),
    "ifPurge": ("true", "TRUE"),
}


class Parameters:
    """Draws such steps."""

    def __init__(self, model: Model) -> None:
        self._model, self._random = model, model.random

    def _chance(self, of: float) -> bool:
        return self._random.random() < of

    def _cased(self, name: str) -> str:
        return name.upper() if self._chance(0.1) else name

    def _some(self, choices: dict[str, tuple[str, ...]], each: float) -> dict[str, str]:
        return {key: self._random.choice(values) for key, values in choices.items() if self._chance(each)}

    def _some_parameters(self) -> dict[str, str]:
        return {} if self._chance(0.5) else self._some(_PARAMETERS, 0.25)

    def _context(self, **properties: str) -> Any:
        drawn = {} if self._chance(0.5) else self._some(_CONTEXT, 0.25)
        if not (drawn or properties) and self._chance(0.5):
            return None
        return struct("EnvironmentContext", properties={**drawn, **properties})

    def _some_columns(self) -> list[Any]:
        columns = [field(name, kind) for name, kind in COLUMNS[: self._random.choice([1, 2, 2, 2, 2, 3])]]
        if self._chance(0.1):
            columns[0].comment = "said"
        return columns

    def _changed(self, parameters: dict[str, str] | None) -> dict[str, str]:
        """Parameters as a client sends them back: kept, some changed, some gone."""
        after = {**(parameters or {}), **self._some_parameters()}
        if self._chance(0.5):
            after[DDL_TIME] = self._random.choice(["0", "7"])
        for key in sorted(after):
            if self._chance(0.08):
                del after[key]
        return after

    def _alter_table(self) -> Step | None:
        noted = self._model.table()
        if noted is None:
            return None
        after = self._altered(noted)
        place = {"dbname": noted.database, "tbl_name": self._cased(noted.name), "new_tbl": after}
        which = self._random.randrange(4)
        if which == 0:
            return "alter_table", place
        if which == 1:
            return "alter_table_with_environment_context", {**place, "environment_context": self._context()}
        if which == 2:
            return "alter_table_with_cascade", {**place, "cascade": self._chance(0.5)}
        fields = {"table": after, "environmentContext": self._context(), "catName": "hive"}
        if self._chance(0.1):
            fields |= {"expectedParameterKey": "k", "expectedParameterValue": "v"}
        request = struct("AlterTableRequest", dbName=noted.database, tableName=noted.name, **fields)
        return "alter_table_req", {"req": request}

    def _altered(self, noted: Noted) -> Any:
        after = copy(noted.table)
        after.parameters = self._changed(after.parameters)
        if self._chance(0.25):
            after.sd.cols = self._some_columns()
        if self._chance(0.3):
            after.tableName = self._cased(self._model.free_name(noted.database))
            if self._chance(0.3):
                after.dbName = self._random.choice(self._model.names)
        if self._chance(0.2):
            after.sd.location = self._model.place(default=0.2)
        if self._chance(0.1) and not noted.has_transactions:
            after.parameters["external.table.purge"] = self._random.choice(["TRUE", "FALSE"])
        if self._chance(0.05) and not noted.has_transactions:
            after.parameters["EXTERNAL"] = self._random.choice(["TRUE", "FALSE"])
        return after

    def _alter_partitions(self) -> Step | None:
        noted = self._model.table(partitioned=True)
        if noted is None or not noted.parts:
            return None
        count = self._random.randint(1, min(3, len(noted.parts)))
        given = [copy(part) for part in self._random.sample(noted.parts, count)]
        columns = self._some_columns() if self._chance(0.3) else None  # Hive mixes up those of several partitions
        for part in given:
            part.parameters = self._changed(part.parameters)
            if columns is not None:
                part.sd.cols = columns
            if self._chance(0.25):
                part.sd.location = self._model.place(default=0)
        if self._chance(0.05):
            given[0].values = self._model.values(noted)
        where = {"db_name": noted.database, "tbl_name": self._cased(noted.name)}
        which = self._random.randrange(5)
        if which == 0:
            return "alter_partition", {**where, "new_part": given[0]}
        if which == 1:
            context = self._context()
            return "alter_partition_with_environment_context", {
                **where,
                "new_part": given[0],
                "environment_context": context,
            }
        if which == 2:
            return "alter_partitions", {**where, "new_parts": given}
        if which == 3:
            context = self._context()
            return "alter_partitions_with_environment_context", {
                **where,
                "new_parts": given,
                "environment_context": context,
            }
        fields = {"partitions": given, "environmentContext": self._context(), "catName": "hive"}
        request = struct("AlterPartitionsRequest", dbName=noted.database, tableName=noted.name, **fields)
        return "alter_partitions_req", {"req": request}

    def _column_statistics(self, noted: Noted, values: list[str] | None) -> Any:
        """Of some columns of a table or of one of its partitions."""
        objects = []
        for column in noted.table.sd.cols:
            if self._chance(0.7):
                high = self._random.randrange(2, 9)
                data = {"longStats": struct("LongColumnStatsData", lowValue=1, highValue=high, numNulls=0, numDVs=3)}
                if column.type == "string":
                    strings = struct("StringColumnStatsData", maxColLen=high, avgColLen=1.5, numNulls=1, numDVs=4)
                    data = {"stringStats": strings}
                given = struct("ColumnStatisticsData", **data)
                objects.append(struct("ColumnStatisticsObj", colName=column.name, colType=column.type, statsData=given))
        names = {"dbName": noted.database, "tableName": noted.name, "catName": "hive"}
        described = struct("ColumnStatisticsDesc", isTblLevel=values is None, **names)
        if values is not None:
            described.partName = name_of(noted.keys, values)
        return struct("ColumnStatistics", statsDesc=described, statsObj=objects, engine="hive")

    def _set_statistics(self) -> Step | None:
        noted = self._model.table()
        if noted is None or noted.has_transactions:
            return None
        values = list(self._random.choice(noted.parts).values) if noted.parts and self._chance(0.8) else None
        given = self._column_statistics(noted, values)
        if not given.statsObj:
            return None
        kind = "table" if values is None else "partition"
        which = self._random.randrange(3)
        if which == 0:
            return f"update_{kind}_column_statistics", {"stats_obj": given}
        request = struct("SetPartitionsStatsRequest", colStats=[given], engine="hive")
        if which == 1:
            return f"update_{kind}_column_statistics_req", {"req": request}
        return "set_aggr_stats_for", {"request": request}

    def _delete_statistics(self) -> Step | None:
        noted = self._model.table()
        if noted is None:
            return None
        column = self._random.choice([None, "a", "b"])
        where = {"db_name": noted.database, "tbl_name": noted.name, "col_name": column, "engine": "hive"}
        if not noted.parts:
            return "delete_table_column_statistics", where
        name = name_of(noted.keys, self._random.choice(noted.parts).values)
        return "delete_partition_column_statistics", {**where, "part_name": name}
