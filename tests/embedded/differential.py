"""One script of calls asked of Hive and of the embedded metastore, and the first differences of their replies.

Job: run scripts, and make replies comparable: the test's own database is DB, warehouses are WH, times and ids are
themselves only where they are alike. Must not know: what the calls mean.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.spec import Struct
from tests.comparison import UNORDERED, first_difference, in_any_order
from tests.methods.oracle import Oracle

Step = tuple[str, dict[str, Any]]
ELSEWHERE = "file:/ELSEWHERE"
"""In arguments: a directory outside of the warehouses, another one for each metastore, as both run on this machine."""
EXTERNAL, MANAGED = "file:/WH/external", "file:/WH/managed"
"""In arguments: the warehouses, each metastore its own."""
_TIME = re.compile(rb"\b1[789]\d{8}\b|(?<=_old_)\d{4}(_\d\d){5}")  # seconds; in the names of replaced plans
GRANTS = ("PrivilegeGrantInfo", "HiveObjectPrivilege")
"""Structs that are in no order, wherever they are listed."""
SETS = ("pools", "mappings", "triggers", "poolTriggers", "resourcePlans", "errors", "schemaVersions")
"""Fields with lists in no order. tests/differential/test_exclusions.py shows it of each, as of GRANTS."""
_TIMES = ("createTime", "grantTime", "lastAccessTime", "lastAnalyzed", "eventTime")
_VOLATILE = {**dict.fromkeys((*_TIMES, "id", "eventId", "executionId"), 0), "eventIds": []}


def struct(struct_name: str, /, **fields: Any) -> Any:
    """A struct of the interface."""
    return spec.struct(struct_name)(**fields)


class Asked:
    """A metastore that is asked: its replies, with its own places and names made common."""

    def __init__(self, address: tuple[str, int], database: str, places: dict[str, bytes]) -> None:
        self._oracle = Oracle("{}:{}".format(*address))
        self._address = address
        self._database = database.encode()
        self.elsewhere = Path(tempfile.gettempdir()) / f"{database}_{address[1]}"
        self._elsewhere = str(self.elsewhere)
        self._places_of = {name.decode(): place for place, name in places.items()} | {"/ELSEWHERE": self._elsewhere}
        self._places = [(place.encode(), name) for place, name in {**places, self._elsewhere: b"/ELSEWHERE"}.items()]

    def ask(self, method: str, arguments: dict[str, Any]) -> Any:
        """The reply in a form that can be compared; `closed` where the connection was closed instead."""
        try:
            reply = self._common(self._oracle.ask(method, **self._own(arguments)).plain)
        except ConnectionError:
            self._oracle.reconnect()
            return "closed"
        return in_any_order(reply) if method in UNORDERED else reply

    def value(self, method: str, arguments: dict[str, Any]) -> Any:
        """What a call gives, as it is: numbers that later calls need."""
        return self._oracle.ask(method, **self._own(arguments)).value.success

    def close(self) -> None:
        self._oracle.close()
        shutil.rmtree(self._elsewhere, ignore_errors=True)

    def _own(self, value: Any) -> Any:
        """Arguments with this metastore's own directories where they say ELSEWHERE, EXTERNAL or MANAGED."""
        if isinstance(value, str):
            for name, place in self._places_of.items():
                value = value.replace(f"file:{name}", f"file:{place}")
            return value
        if isinstance(value, list):
            return [self._own(item) for item in value]
        if isinstance(value, dict):
            return {key: self._own(item) for key, item in value.items()}
        if isinstance(value, Struct):
            return type(value)(**{name: self._own(field) for name, field in value.__dict__.items()})
        return value

    def _common(self, value: Any) -> Any:
        """Own places and names made common."""
        if isinstance(value, tuple):
            return tuple(self._common(item) for item in value)
        if isinstance(value, list):
            common = [self._common(item) for item in value]
            grants = value and isinstance(value[0], tuple) and value[0][0] in GRANTS
            return sorted(common, key=repr) if grants else common
        if isinstance(value, dict):
            return {self._common(key): self._field(key, item) for key, item in value.items()}
        if isinstance(value, bytes):
            for place, name in self._places:
                value = value.replace(place, name)
            return _TIME.sub(b"TIME", value.replace(self._database, b"DB"))
        return value

    def _field(self, name: Any, value: Any) -> Any:
        if name in _VOLATILE and (isinstance(value, list) or isinstance(value, int) and value > 0):
            return _VOLATILE[name]
        found = self._common(value)
        if name in SETS and isinstance(found, list):
            return sorted(found, key=repr)
        return found


def differences(hive: Asked, ours: Asked, steps: Iterable[Step]) -> Iterator[str]:
    """What differs, step by step."""
    for number, (method, arguments) in enumerate(steps):
        expected, found = hive.ask(method, arguments), ours.ask(method, arguments)
        where = first_difference(expected, found)
        if where:
            yield f"{number} {method} {where}"
