"""Partitions of transactional tables as registers: altered, or added and dropped, under a write id."""

from __future__ import annotations

from typing import Any

from hive_metastore.ttypes import (
    AddPartitionsRequest,
    AlterPartitionsRequest,
    GetPartitionNamesPsRequest,
    GetPartitionRequest,
    GetPartitionsByNamesRequest,
    GetPartitionsPsWithAuthRequest,
    Partition,
    PartitionsRequest,
)

from tests.history.registers import newest
from tests.testbed.client import MetastoreClient
from tests.testbed.objects import partition
from tests.write_ids.history_hive import Scope
from tests.write_ids.history_tables import Under, Way, Written


class OfPartitions(Written):
    """What partitioned tables share."""

    partitioned = True

    def _partition(self, value: str, version: int, under: Under) -> Partition:
        made = partition(self.created, [value], {"v": str(version)})
        made.writeId = under.write_id
        return made

    def _add(self, client: MetastoreClient, value: str, version: int, under: Under) -> None:
        request = AddPartitionsRequest(
            dbName=self.database,
            tblName=under.scope.name,
            parts=[self._partition(value, version, under)],
            ifNotExists=False,
            needResult=False,
            validWriteIdList=under.scope.valid.text,
        )
        client.add_partitions_req(request)

    def get_partitions_req(self, client: MetastoreClient, scope: Scope) -> Any:
        request = PartitionsRequest(dbName=self.database, tblName=scope.name, maxParts=-1, **scope.proof)
        return client.get_partitions_req(request).partitions

    def get_partitions_ps_with_auth_req(self, client: MetastoreClient, scope: Scope) -> Any:
        request = GetPartitionsPsWithAuthRequest(
            dbName=self.database, tblName=scope.name, partVals=[""], maxParts=-1, **scope.proof
        )
        return client.get_partitions_ps_with_auth_req(request).partitions


class PartitionAltered(OfPartitions):
    """alter_partitions_req of a parameter."""

    def fill(self, client: MetastoreClient, under: Under) -> None:
        self._add(client, "x", 0, under)

    def write(self, client: MetastoreClient, version: int, under: Under) -> None:
        request = AlterPartitionsRequest(
            dbName=self.database,
            tableName=under.scope.name,
            partitions=[self._partition("x", version, under)],
            writeId=under.write_id,
            validWriteIdList=under.scope.valid.text,
        )
        client.alter_partitions_req(request)

    def get_partition_req(self, client: MetastoreClient, scope: Scope) -> Any:
        request = GetPartitionRequest(dbName=self.database, tblName=scope.name, partVals=["x"], **scope.proof)
        return [client.get_partition_req(request).partition]

    def get_partitions_by_names_req(self, client: MetastoreClient, scope: Scope) -> Any:
        request = GetPartitionsByNamesRequest(db_name=self.database, tbl_name=scope.name, names=["n=x"], **scope.proof)
        return client.get_partitions_by_names_req(request).partitions

    @staticmethod
    def _shown(answer: list[Any]) -> int:
        return newest(int(one.parameters["v"]) for one in answer if "v" in one.parameters)

    def ways(self) -> list[Way]:
        asks = (
            self.get_partition_req,
            self.get_partitions_by_names_req,
            self.get_partitions_req,
            self.get_partitions_ps_with_auth_req,
        )
        return [Way(ask, self._shown) for ask in asks]


class PartitionsAdded(OfPartitions):
    """add_partitions_req of the next one, drop_partition of the one before: the newest is the version."""

    def fill(self, client: MetastoreClient, under: Under) -> None:
        self._add(client, "0", 0, under)

    def write(self, client: MetastoreClient, version: int, under: Under) -> None:
        self._add(client, str(version), version, under)
        client.drop_partition(self.database, under.scope.name, [str(version - 1)], False)

    def get_partition_names_ps_req(self, client: MetastoreClient, scope: Scope) -> Any:
        request = GetPartitionNamesPsRequest(
            dbName=self.database, tblName=scope.name, partValues=[""], maxParts=-1, **scope.proof
        )
        return client.get_partition_names_ps_req(request).names

    @staticmethod
    def _shown(answer: list[Any]) -> int:
        return newest(int(one.values[0]) for one in answer if one.values)

    def ways(self) -> list[Way]:
        return [
            Way(self.get_partition_names_ps_req, lambda names: newest(int(one.removeprefix("n=")) for one in names)),
            Way(self.get_partitions_req, self._shown),
            Way(self.get_partitions_ps_with_auth_req, self._shown),
        ]
