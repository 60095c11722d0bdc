"""Transactional tables that get another name, or another id under the same name."""

from __future__ import annotations

import copy
import random
from typing import Any

from hive_metastore.ttypes import NoSuchObjectException

from tests.history.registers import ABSENT, newest
from tests.testbed.client import MetastoreClient
from tests.testbed.objects import create_table, create_transactional_table, read_table, table
from tests.write_ids.history_hive import Scope
from tests.write_ids.history_tables import Under, Way, Written, with_transaction


class Renamed(Written):
    """alter_table_req from name_k to name_k+1; a reader asks for one of the names."""

    shared = False

    @property
    def current(self) -> str:
        return f"{self.name}_{self.version}"

    def fill(self, client: MetastoreClient, under: Under) -> None:
        """A write id: a list of the right name shows one from now on, a list of any other name shows none."""

    def required(self, scope: Scope) -> int:
        return _number(scope.name) if scope.valid.high else 0

    def write(self, client: MetastoreClient, version: int, under: Under) -> None:
        renamed = copy.deepcopy(self.created)
        renamed.tableName = f"{self.name}_{version}"
        self.alter(client, renamed, under)

    def get_table_req(self, client: MetastoreClient, scope: Scope) -> Any:
        try:
            return super().get_table_req(client, scope)
        except NoSuchObjectException:
            return None

    def ways(self) -> list[Way]:
        return [Way(self.get_table_req, lambda table: ABSENT if table is None else _number(table.tableName))]

    def absent(self, scope: Scope, required: int) -> int:
        return required + (required == _number(scope.name))

    def state(self, client: MetastoreClient) -> int:
        names = client.get_tables(self.database, f"{self.name}_*")
        return newest(_number(name) for name in names)


def _number(name: str) -> int:
    return int(name.rpartition("_")[2])


class Recreated(Written):
    """Dropped (odd versions) and created again (even versions): with another id, and often with the same list; now and
    then as a table that is not transactional. `write` is in no transaction."""

    shared = False

    def __init__(self, database: str, name: str, *, insert_only: bool = False) -> None:
        super().__init__(database, name, insert_only=insert_only)
        self._external: set[int] = set()

    def create(self, client: MetastoreClient) -> None:
        self.write(client, 0)

    def required(self, scope: Scope) -> int:
        """Lists are nothing to a table that is not transactional."""
        return 0 if scope.table_id in self._external else super().required(scope)

    def write(self, client: MetastoreClient, version: int, under: Under | None = None) -> None:
        if version % 2:
            client.drop_table(self.database, self.name, random.random() < 0.5)
            return
        parameters = {"v": str(version)}
        if random.random() < 0.3:
            created = create_table(client, table(self.database, self.name, parameters=parameters))
            self._external.add(created.id)
        else:
            created = create_transactional_table(
                client, self.database, self.name, insert_only=self.insert_only, parameters=parameters
            )
        self.born[created.id] = version
        if random.random() < 0.1:
            with_transaction(client, self.database, self.name, created.id, lambda client, under: None)

    def get_table_req(self, client: MetastoreClient, scope: Scope) -> Any:
        try:
            return super().get_table_req(client, scope)
        except NoSuchObjectException:
            return None

    def ways(self) -> list[Way]:
        return [Way(self.get_table_req, lambda table: ABSENT if table is None else int(table.parameters["v"]))]

    def absent(self, scope: Scope, required: int) -> int:
        return required | 1

    def state(self, client: MetastoreClient) -> int:
        """Also learns the id of a table of whose creation nobody told."""
        try:
            found = read_table(client, self.database, self.name)
        except NoSuchObjectException:
            return ABSENT
        if found.tableType == "EXTERNAL_TABLE":
            self._external.add(found.id)
        version = int(found.parameters["v"])
        self.born.setdefault(found.id, version)
        return version
