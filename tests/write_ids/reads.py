"""A world of transactional tables, and generated reads of them with lists and table ids of every kind.

Job: tables in all states (written, being written, aborted, with statistics), and requests as Hive 4 has them, encoded
by the wire facts, as other clients' classes lack these fields. Must not know: what is answered from where.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.message import MessageType, message_header
from tests.testbed.objects import PROCESSOR_CAPABILITIES, PROCESSOR_IDENTIFIER
from tests.write_ids.transactions import CAPABLE, Transactions, struct

Request = tuple[str, dict[str, Any]]
PARTITIONS = ("a", "b", "c", "d")
STATISTICS = {"COLUMN_STATS_ACCURATE": '{"BASIC_STATS":"true"}', "numRows": "7"}


def encode(method: str, arguments: dict[str, Any], seqid: int) -> bytes:
    """The message of a call."""
    return message_header(method.encode(), MessageType.CALL, seqid) + spec.encode(spec.args(method)(**arguments))


class World:
    """Tables of one database, and transactions on them that go on."""

    def __init__(self, direct: Transactions, database: str, seed: int) -> None:
        self.direct, self.database, self.rng = direct, database, random.Random(seed)
        direct.create_database(database)
        self.ids: dict[str, int] = {}
        self.old_lists: dict[str, list[bytes]] = {}
        for partitioned in (False, True):
            for insert_only in (False, True):
                for number in range(2):
                    name = f"{'p' if partitioned else 'u'}{'i' if insert_only else 'f'}{number}"
                    self.ids[name] = direct.create(database, name, partitioned=partitioned, insert_only=insert_only)
                    self.old_lists[name] = []
        self._open: list[tuple[int, str, int]] = []

    def change(self) -> None:
        """One random step of a writer."""
        name = self.rng.choice(list(self.ids))
        direct, database = self.direct, self.database
        roll = self.rng.random()
        if len(self._open) < 3 and (roll < 0.4 or not self._open):
            transaction = direct.open()
            self._open.append((transaction, name, direct.allocate(transaction, database, name)))
        elif roll < 0.6:
            self._write(*self.rng.choice(self._open)[1:])
        elif roll < 0.95:
            transaction, name, _ = self._open.pop(self.rng.randrange(len(self._open)))
            end = direct.commit if self.rng.random() < 0.7 else direct.abort
            end(transaction)
        else:
            self._write(name, -1)
        self.old_lists[name].append(direct.valid(database, name))

    def _write(self, name: str, write_id: int) -> None:
        direct, database = self.direct, self.database
        if name.startswith("u") or self.rng.random() < 0.2:
            statistics = STATISTICS if write_id > 0 and self.rng.random() < 0.5 else {}  # need a write id
            parameters = {"k": str(self.rng.random()), **statistics}
            direct.alter(database, name, parameters, write_id, direct.valid(database, name) if write_id > 0 else None)
            if name.startswith("u") and write_id > 0:
                direct.set_statistics(database, name, None, write_id, direct.valid(database, name))
            return
        there = set(direct.partition_names(database, name))
        value = self.rng.choice(PARTITIONS)
        if f"p={value}" not in there:
            direct.add_partition(database, name, value, write_id)
        elif write_id > 0 and self.rng.random() < 0.7:
            direct.alter_partition(database, name, value, {**STATISTICS, "k": str(self.rng.random())}, write_id)
            if self.rng.random() < 0.8:
                direct.set_statistics(database, name, f"p={value}", write_id, direct.valid(database, name))
        else:
            direct.call("drop_partition", db_name=database, tbl_name=name, part_vals=[value], deleteData=False)

    # -- reads

    def reads(self, count: int) -> Iterator[Request]:
        """Requests whose lists are of now when they are made."""
        for _ in range(count):
            yield self._read()

    def _proof(self, name: str) -> dict[str, Any]:
        roll = self.rng.random()
        if roll < 0.1:
            return {}
        if roll < 0.75:
            text = self.direct.valid(self.database, name)
        else:
            text = self.rng.choice([*self.old_lists[name], b"", b"nonsense", b"other.t:3:9223372036854775807::"])
        proof: dict[str, Any] = {"validWriteIdList": text}
        roll = self.rng.random()
        if roll < 0.85:
            proof["id"] = self.ids[name]
        elif roll < 0.95:
            proof["id"] = self.rng.choice([*self.ids.values(), 0, -1])
        return proof

    def _read(self) -> Request:
        name = self.rng.choice(list(self.ids))
        if self.rng.random() < 0.03:
            return self.rng.choice([self._table, self._constraints, self._statistics_of_table])("no", self._proof(name))
        makers = [self._table, self._tables, self._constraints, self._statistics_of_table]
        if name.startswith("p"):
            makers += [self._one, self._by_names, self._all, self._names, self._some, self._fields]
            makers += [self._statistics_of_partitions, self._aggregate]
        return self.rng.choice(makers)(name, self._proof(name))

    def _table(self, name: str, proof: dict[str, Any]) -> Request:
        more = {"capabilities": struct("ClientCapabilities", values=CAPABLE)} if self.rng.random() < 0.9 else {}
        if self.rng.random() < 0.3:
            more |= {"processorCapabilities": PROCESSOR_CAPABILITIES, "processorIdentifier": PROCESSOR_IDENTIFIER}
        if self.rng.random() < 0.1:
            more |= {"getColumnStats": True, "engine": "hive"}
        request = struct("GetTableRequest", dbName=self.database, tblName=name, **proof, **more)
        return "get_table_req", {"req": request}

    def _constraints(self, name: str, proof: dict[str, Any]) -> Request:
        bare = {("tableId" if key == "id" else key): value for key, value in proof.items()}
        request = struct("AllTableConstraintsRequest", catName="hive", dbName=self.database, tblName=name, **bare)
        return "get_all_table_constraints", {"request": request}

    def _statistics_of_table(self, name: str, proof: dict[str, Any]) -> Request:
        request = struct("TableStatsRequest", dbName=self.database, tblName=name, colNames=["id"], **proof)
        return "get_table_statistics_req", {"request": request}

    def _statistics_of_partitions(self, name: str, proof: dict[str, Any]) -> Request:
        return "get_partitions_statistics_req", {"request": self._of_some(name, proof)}

    def _aggregate(self, name: str, proof: dict[str, Any]) -> Request:
        return "get_aggr_stats_for", {"request": self._of_some(name, proof)}

    def _of_some(self, name: str, proof: dict[str, Any]) -> Any:
        names = [f"p={value}" for value in self.rng.sample(PARTITIONS, self.rng.choice((0, 1, 1, 2)))]
        more = {"partNames": names, "colNames": ["id"], "engine": "hive"}
        proof = {key: value for key, value in proof.items() if key != "id"}
        return struct("PartitionsStatsRequest", dbName=self.database, tblName=name, **more, **proof)

    def _tables(self, name: str, proof: dict[str, Any]) -> Request:
        more = {"capabilities": struct("ClientCapabilities", values=CAPABLE)} if self.rng.random() < 0.9 else {}
        return "get_table_objects_by_name_req", {
            "req": struct("GetTablesRequest", dbName=self.database, tblNames=[name], **more)
        }

    def _one(self, name: str, proof: dict[str, Any]) -> Request:
        value = self.rng.choice(PARTITIONS)
        return "get_partition_req", {
            "req": struct("GetPartitionRequest", dbName=self.database, tblName=name, partVals=[value], **proof)
        }

    def _by_names(self, name: str, proof: dict[str, Any]) -> Request:
        names = [f"p={value}" for value in self.rng.sample(PARTITIONS, 2)]
        more = {"get_col_stats": True, "engine": "hive"} if self.rng.random() < 0.1 else {}
        request = struct(
            "GetPartitionsByNamesRequest", db_name=self.database, tbl_name=name, names=names, **proof, **more
        )
        return "get_partitions_by_names_req", {"req": request}

    def _all(self, name: str, proof: dict[str, Any]) -> Request:
        return "get_partitions_req", {
            "req": struct("PartitionsRequest", dbName=self.database, tblName=name, maxParts=-1, **proof)
        }

    def _names(self, name: str, proof: dict[str, Any]) -> Request:
        request = struct(
            "GetPartitionNamesPsRequest", dbName=self.database, tblName=name, partValues=[""], maxParts=-1, **proof
        )
        return "get_partition_names_ps_req", {"req": request}

    def _some(self, name: str, proof: dict[str, Any]) -> Request:
        value = self.rng.choice([*PARTITIONS, ""])
        request = struct(
            "GetPartitionsPsWithAuthRequest", dbName=self.database, tblName=name, partVals=[value], **proof
        )
        return "get_partitions_ps_with_auth_req", {"req": request}

    def _fields(self, name: str, proof: dict[str, Any]) -> Request:
        request = struct("GetFieldsRequest", dbName=self.database, tblName=name, **proof)
        return "get_fields_req", {"req": request}
