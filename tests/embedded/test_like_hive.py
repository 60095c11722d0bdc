"""The same calls to Hive 4.2.0 and to the embedded metastore: replies, and the events that they leave."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import pytest

from tests.comparison import first_difference
from tests.embedded.acid_scripts import ACID_SCRIPTS
from tests.embedded.constraint_scripts import CONSTRAINT_SCRIPTS
from tests.embedded.differential import Asked, Step, differences, struct
from tests.embedded.more_scripts import MORE_SCRIPTS
from tests.embedded.plan_scripts import PLAN_SCRIPTS
from tests.embedded.registry_scripts import REGISTRY_SCRIPTS
from tests.embedded.scheduled_scripts import SCHEDULED_SCRIPTS
from tests.embedded.scripts import SCRIPTS
from tests.embedded.write_scripts import WRITE_SCRIPTS
from tests.testbed.metastore import Metastore

LOGGED = SCRIPTS | MORE_SCRIPTS | ACID_SCRIPTS | CONSTRAINT_SCRIPTS | WRITE_SCRIPTS
EVERY = LOGGED | PLAN_SCRIPTS | REGISTRY_SCRIPTS | SCHEDULED_SCRIPTS  # these leave no events


def connected(metastore: Metastore, database: str) -> Asked:
    places = {str(metastore.external): b"/WH/external", str(metastore.warehouse): b"/WH/managed"}
    return Asked(metastore.address, database, places)


def script(name: str, database: str) -> list[Step]:
    steps = EVERY[name](database)
    if name != "databases":
        steps = [("create_database", {"database": struct("Database", name=database)}), *steps]
    return steps


@pytest.mark.real
@pytest.mark.parametrize("name", EVERY)
def test_replies(hms42: Metastore, embedded: Metastore, unique_name: str, name: str) -> None:
    hive, ours = connected(hms42, unique_name), connected(embedded, unique_name)
    found = list(differences(hive, ours, script(name, unique_name)))
    hive.close()
    ours.close()
    assert not found, "\n".join(found)


def events(asked: Asked, after: int, database: str) -> list[Any]:
    """Events of a database after an id, decoded, in a form that can be compared."""
    request = struct("NotificationEventRequest", lastEvent=after, maxEvents=-1)
    reply = asked._oracle.ask("get_next_notification", rqst=request).value.success
    found = []
    for event in reply.events:
        if event.dbName is not None and event.dbName.decode().startswith(database):
            message = json.loads(gzip.decompress(base64.b64decode(event.message)))
            row = [event.eventType, event.dbName, event.tableName, event.catName, event.messageFormat]
            found.append(asked._common([*row, _decoded(message)]))
    return found


def _decoded(message: Any) -> Any:
    """Objects inside are JSON in strings; maps of lists to strings are no JSON, and no script has one."""
    if isinstance(message, dict):
        return {key: _decoded(value) for key, value in message.items() if key not in ("timestamp", "createTime")}
    if isinstance(message, list):
        return [_decoded(value) for value in message]
    if isinstance(message, str):
        if message.startswith("{"):
            return _thrift(json.loads(message))
        return message.encode()
    return message


def _thrift(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _thrift(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_thrift(item) for item in value]
    if isinstance(value, str):
        return value.encode()
    return "TIME" if isinstance(value, int) and value > 1_700_000_000 else value


VOLATILE = {"25"}  # a table's id


def without_ids(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_ids(item) for key, item in value.items() if key not in VOLATILE}
    if isinstance(value, list | tuple):
        return type(value)(without_ids(item) for item in value)
    return value


@pytest.mark.real
@pytest.mark.parametrize("name", LOGGED)
def test_events(hms42: Metastore, embedded: Metastore, unique_name: str, name: str) -> None:
    """The notification log after the same calls: types, columns of the rows, fields of the messages."""
    both = connected(hms42, unique_name), connected(embedded, unique_name)
    logged = []
    for asked in both:
        after = asked._oracle.do("get_current_notificationEventId").eventId
        for method, arguments in script(name, unique_name):
            asked.ask(method, arguments)
        logged.append(without_ids(events(asked, after, unique_name)))
        asked.close()
    hive, ours = logged
    kinds = [[(event[0], event[2]) for event in found] for found in logged]
    assert kinds[0] == kinds[1]
    found = [f"{n} {a[0]}: {first_difference(a, b)}" for n, (a, b) in enumerate(zip(hive, ours, strict=True))]
    found = [line for line in found if not line.endswith(": ")]
    assert not found, "\n".join(found)
