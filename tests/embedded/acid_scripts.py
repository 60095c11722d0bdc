"""The calls about tables with transactions that Hive and the embedded metastore are asked.

Job: lists of (method, arguments): who may have transactions, and who may lose them.
"""

from __future__ import annotations

from typing import Any

from tests.embedded.differential import Step, struct
from tests.embedded.scripts import descriptor, request, table

FORMATS = {
    f"{side}Format": f"org.apache.hadoop.hive.ql.io.orc.Orc{side.capitalize()}Format" for side in ("input", "output")
}
ABLE = {"processorCapabilities": ["HIVEFULLACIDWRITE", "HIVEMANAGEDINSERTWRITE"], "processorIdentifier": "test"}
FULL = {"transactional": "true", "transactional_properties": "default"}
INSERTS = {"transactional": "true", "transactional_properties": "insert_only"}


def acid(db: str) -> list[Step]:
    """Tables made and altered."""
    orc = {"sd": descriptor(**FORMATS)}
    is_sorted = [struct("Order", col="a", order=1)]
    external = {"tableType": "EXTERNAL_TABLE"}
    only_true = {"parameters": {"transactional": "true"}}
    cases: dict[str, dict[str, Any]] = {
        "full": orc,
        "names": {**orc, "parameters": {"TRANSACTIONAL": "TRUE"}},
        "text": {},
        "maybe": {**orc, "parameters": {"transactional": "maybe"}},
        "unknown": {**orc, "parameters": {**FULL, "transactional_properties": "unknown"}},
        "off": {**orc, "parameters": {"transactional": "false"}},
        "inserts": {"parameters": {**INSERTS, "transactional_properties": "INSERT_ONLY"}},
        "sorted": {"sd": descriptor(**FORMATS, sortCols=is_sorted)},
        "sorted_inserts": {"sd": descriptor(sortCols=is_sorted), "parameters": INSERTS},
        "outside": {**orc, **external, "parameters": {"transactional": "true", "EXTERNAL": "TRUE"}},
        "called_outside": {**orc, **external},
        "plain": {**external, "parameters": {"EXTERNAL": "TRUE"}},
        "plain_orc": {**orc, **external, "parameters": {"EXTERNAL": "TRUE"}},
        "view": {"tableType": "VIRTUAL_VIEW", "viewOriginalText": "x", "viewExpandedText": "y"},
    }

    def wanted(name: str, fields: dict[str, Any]) -> Any:
        return table(db, name, **{"tableType": "MANAGED_TABLE", **only_true, **fields})

    def make(name: str, fields: dict[str, Any]) -> Step:
        return "create_table_req", {"request": struct("CreateTableRequest", table=wanted(name, fields), **ABLE)}

    def get(name: str) -> Step:
        return "get_table_req", request("GetTableRequest", db, name, **ABLE)

    def alter(name: str, **fields: Any) -> Step:
        values = {"dbName": db, "tableName": name, "table": wanted(name, fields)}
        return "alter_table_req", {"req": struct("AlterTableRequest", **values, **ABLE)}

    made = [step for name, fields in cases.items() for step in (make(name, fields), get(name))]
    return [
        *made,
        make("full", {**orc, "parameters": {"transactional": "maybe"}}),
        ("create_table", {"tbl": wanted("unable", orc)}),
        *(
            alter("full", **orc, parameters=parameters)
            for parameters in ({}, {"a": "b"}, {"transactional": "false"}, INSERTS)
        ),
        alter("full", **orc, **external, parameters=FULL),
        alter("full", **cases["sorted"], parameters=FULL),
        alter("plain", **external, **only_true),
        alter("plain", **external, parameters={"transactional": "maybe"}),
        alter("plain_orc", **orc, **external, **only_true),
        alter("plain_orc", **orc, **only_true),
        get("full"),
        ("drop_database", {"name": db, "deleteData": True, "cascade": True}),
    ]


ACID_SCRIPTS = {"acid": acid}
