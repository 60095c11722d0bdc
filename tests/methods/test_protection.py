"""What `[protection]` refuses; its limits, and the waits of the dispatcher behind it: each is woken only by what it
waits for."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from time import monotonic_ns
from typing import Any

import pytest

from hms_cache_proxy.config.protection import ProtectionSection
from hms_cache_proxy.methods.decision import (
    BaseDispatcher,
    ClientCall,
    ClientSession,
    Decision,
    Forward,
    Serve,
    Wait,
    Work,
)
from hms_cache_proxy.methods.protection import _MORE, _OF_READERS, ProtectedDispatcher
from hms_cache_proxy.methods.table import METHODS, MethodKind
from hms_cache_proxy.wire.message import Header, MessageType, parse_header
from tests.methods.oracle import request
from tests.methods.structs import struct
from tests.testbed.raw import encode_call

QUEUE_NS = 10**9


class Inner(BaseDispatcher):
    """Decides what it was told to."""

    decision: Decision = Forward("get_table", "miss")

    def moved(self) -> int:
        return 7

    def decide(self, call: ClientCall) -> Decision:
        return self.decision


def asked(dispatcher: ProtectedDispatcher, peer: str, now_ns: int | None = None) -> Decision:
    message = encode_call("get_table", "d", "t")
    header = parse_header(message)
    assert isinstance(header, Header) and header.type is MessageType.CALL
    return dispatcher.decide(
        ClientCall.of(ClientSession(peer=peer), header, message, now_ns or monotonic_ns(), patient=True)
    )


@pytest.mark.parametrize("oneway", [False, True])
@pytest.mark.parametrize("method", [b"drop_table", b"drop_tbale"])
@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (ProtectionSection(read_only=True), "read_only"),
        (ProtectionSection(refuse_writes=("d",)), "refused"),
    ],
)
def test_a_write_is_refused_whatever_the_type_of_its_message(
    settings: ProtectionSection, reason: str, method: bytes, oneway: bool
) -> None:
    """A metastore does it, whatever the type: it looks at the method alone."""
    inner = Inner()
    inner.decision = Forward("drop_table", "write")
    dispatcher = ProtectedDispatcher(inner, settings, frozenset(), queue_ns=QUEUE_NS)
    message = encode_call("drop_table", "d", "t", True, oneway=oneway).replace(b"drop_table", method)
    header = parse_header(message)
    assert isinstance(header, Header) and (header.type is MessageType.ONEWAY) is oneway
    refused = dispatcher.decide(ClientCall.of(ClientSession(peer="a:1"), header, message, monotonic_ns()))
    assert isinstance(refused, Serve) and (refused.outcome, refused.reason) == ("error", reason)


def in_database(name: bytes) -> Iterator[bytes]:
    """Calls that change something in a database, and nothing that is cached."""
    on = struct("HiveObjectRef", objectType=3, dbName=name, objectName=b"t")
    bag = struct("PrivilegeBag", privileges=[struct("HiveObjectPrivilege", hiveObject=on)])
    yield request("grant_privileges", {"privileges": bag})
    yield request("revoke_privileges", {"privileges": bag})
    yield request("create_stored_procedure", {"proc": struct("StoredProcedure", name=b"p", dbName=name)})
    yield request("drop_package", {"request": struct("DropPackageRequest", dbName=name, packageName=b"p")})
    yield request("create_ischema", {"schema": struct("ISchema", name=b"s", dbName=name)})
    named = struct("ISchemaName", dbName=name, schemaName=b"s")
    version = struct("SchemaVersionDescriptor", schema=named, version=1)
    yield request("drop_schema_version", {"schemaVersion": version})
    mapped = struct("MapSchemaVersionToSerdeRequest", schemaVersion=version)
    yield request("map_schema_version_to_serde", {"rqst": mapped})
    yield request("seed_write_id", {"rqst": struct("SeedTableWriteIdsRequest", dbName=name, tableName=b"t")})
    for rebuild in ("get_lock_materialization_rebuild", "heartbeat_lock_materialization_rebuild"):
        yield request(rebuild, {"dbName": name, "tableName": b"t", "txnId": 1})


def is_refused(message: bytes, settings: ProtectionSection, *, complete: bool = True) -> bool:
    inner = Inner()
    inner.decision = Forward("other", "write")
    dispatcher = ProtectedDispatcher(inner, settings, frozenset(), queue_ns=QUEUE_NS)
    header = parse_header(message)
    assert isinstance(header, Header)
    decision = dispatcher.decide(
        ClientCall.of(ClientSession(peer="a:1"), header, message, monotonic_ns(), complete=complete)
    )
    while isinstance(decision, Work):
        decision = decision.step() or decision
    return isinstance(decision, Serve)


VAULT = ProtectionSection(refuse_writes=("vault",))


def test_changes_of_what_is_not_cached_are_refused_too() -> None:
    for name in (b"Vault", b"sales"):
        for message in in_database(name):
            assert is_refused(message, VAULT) is (name == b"Vault"), message[:60]


def test_a_change_of_many_objects_is_refused() -> None:
    """Whichever of them are in the database: of a request that is too large to be read whole, only the beginning is
    known, and of one with too many objects not which they are."""
    refs = [struct("HiveObjectRef", objectType=3, dbName=b"d%d" % n, objectName=b"t") for n in range(10_001)]
    refs[-1].dbName = b"vault"
    bag = struct("PrivilegeBag", privileges=[struct("HiveObjectPrivilege", hiveObject=on) for on in refs])
    grant = request("grant_privileges", {"privileges": bag})
    assert is_refused(grant, VAULT)
    assert is_refused(grant[:60_000], VAULT, complete=False)
    some = [struct("LockComponent", type=2, level=2, dbname=name, tablename=b"t") for name in (b"sales", b"vault")]
    lock = request("lock", {"rqst": struct("LockRequest", component=some, user=b"u", hostname=b"h")})
    assert is_refused(lock, VAULT)
    assert is_refused(lock[:-20], VAULT, complete=False)


OF_NO_DATABASE = frozenset(
    "create_dataconnector create_dataconnector_req alter_dataconnector alter_dataconnector_req drop_dataconnector"
    " drop_dataconnector_req create_type drop_type add_serde set_properties scheduled_query_maintenance"
    " scheduled_query_progress scheduled_query_poll add_runtime_stats add_replication_metrics create_resource_plan"
    " alter_resource_plan drop_resource_plan create_wm_pool alter_wm_pool drop_wm_pool create_wm_trigger"
    " alter_wm_trigger drop_wm_trigger create_or_update_wm_mapping drop_wm_mapping"
    " create_or_drop_wm_trigger_to_pool_mapping seed_txn_id".split()
)
STEPS_OF_COMPACTIONS = frozenset(
    "abort_Compactions find_next_compact find_next_compact2 mark_cleaned mark_compacted mark_failed mark_refused"
    " set_hadoop_jobid update_compactor_state update_transaction_statistics update_compaction_metrics_data"
    " remove_compaction_metrics_data".split()
)


def test_every_other_change_says_which_database_it_changes() -> None:
    """`refuse_writes` lets these pass, and only these. A new method belongs in one of the lists, or needs a rule."""
    changes = [
        method
        for method in METHODS.values()
        if method.kind is MethodKind.WRITE or (method.kind is MethodKind.TRANSACTION and method.name not in _OF_READERS)
    ]
    passing = {method.name for method in changes if not method.rules and method.name not in _MORE}
    assert passing == OF_NO_DATABASE | STEPS_OF_COMPACTIONS


def test_a_change_outside_of_all_databases_is_not_refused() -> None:
    role = request("create_role", {"role": struct("Role", roleName=b"r")})
    catalog = request("drop_catalog", {"catName": struct("DropCatalogRequest", name=b"c")})
    for message in (role, catalog, request("drop_type", {"type": b"t"})):
        assert not is_refused(message, VAULT), message[:60]
        assert is_refused(message, ProtectionSection(read_only=True)), message[:60]


def test_a_change_that_may_be_about_any_database_is_refused() -> None:
    pair = struct("CommitTxnKeyValue", tableId=1, key=b"k", value=b"v")
    commit = request("commit_txn", {"rqst": struct("CommitTxnRequest", txnid=1, keyValue=pair)})
    drop = request("drop_table", {"dbname": b"sales", "name": b"t"})
    unreadable, unknown = drop[:-6], drop.replace(b"drop_table", b"drop_tbale")
    for message in (commit, unreadable, unknown):
        assert is_refused(message, VAULT), message[:60]


def test_what_starts_queries_or_moves_files_is_a_change() -> None:
    poll = request("scheduled_query_poll", {"request": struct("ScheduledQueryPollRequest", clusterNamespace=b"hive")})
    recycle = request("cm_recycle", {"request": struct("CmRecycleRequest", dataPath=b"s3://bucket/vault", purge=True)})
    for message in (poll, recycle):
        assert is_refused(message, ProtectionSection(read_only=True)), message[:60]
    assert is_refused(recycle, VAULT), "the files may be of any table"
    assert not is_refused(poll, VAULT)


def test_hive_reads_transactional_tables_through_a_read_only_proxy() -> None:
    """What its Driver calls for a query that reads one."""
    component = struct("LockComponent", type=1, level=2, dbname=b"sales", tablename=b"t")  # SHARED_READ, TABLE
    lock = struct("LockRequest", component=[component], txnid=1, user=b"u", hostname=b"h")
    calls: dict[str, dict[str, Any]] = {
        "open_txns": {"rqst": struct("OpenTxnRequest", num_txns=1, user=b"u", hostname=b"h")},
        "get_open_txns_req": {"getOpenTxnsRequest": struct("GetOpenTxnsRequest")},
        "lock": {"rqst": lock},
        "get_valid_write_ids": {"rqst": struct("GetValidWriteIdsRequest", fullTableNames=[b"sales.t"])},
        "add_write_ids_to_min_history": {"txnId": 1, "writeIds": {b"sales.t": 1}},
        "heartbeat": {"ids": struct("HeartbeatRequest", txnid=1)},
        "commit_txn": {"rqst": struct("CommitTxnRequest", txnid=1)},
        "abort_txn": {"rqst": struct("AbortTxnRequest", txnid=1)},
    }
    for method, arguments in calls.items():
        assert not is_refused(request(method, arguments), ProtectionSection(read_only=True)), method
        assert not is_refused(request(method, arguments), ProtectionSection(refuse_writes=("*",))), method


@pytest.mark.parametrize("oneway", [False, True])
def test_a_read_is_refused_whatever_the_type_of_its_message(oneway: bool) -> None:
    dispatcher = ProtectedDispatcher(Inner(), ProtectionSection(refuse_reads=("d",)), frozenset(), queue_ns=QUEUE_NS)
    message = encode_call("get_table", "d", "t", oneway=oneway)
    header = parse_header(message)
    assert isinstance(header, Header)
    refused = dispatcher.decide(ClientCall.of(ClientSession(peer="a:1"), header, message, monotonic_ns()))
    assert isinstance(refused, Serve) and (refused.outcome, refused.reason) == ("error", "refused")


def test_a_place_returns_when_its_call_is_forgotten() -> None:
    inner = Inner()
    dispatcher = ProtectedDispatcher(inner, ProtectionSection(calls_per_address=1), frozenset(), queue_ns=QUEUE_NS)
    first: Decision | None = asked(dispatcher, "a:1")
    assert isinstance(first, Forward)
    assert isinstance(asked(dispatcher, "b:1"), Forward), "another address"
    waiting = asked(dispatcher, "a:2")
    assert isinstance(waiting, Wait) and waiting.seen == dispatcher.moved()
    first = None
    gc.collect()
    assert waiting.seen != dispatcher.moved(), "it is decided again"
    second = asked(dispatcher, "a:2")
    assert isinstance(second, Forward)
    second.pending.failed(True)
    third = asked(dispatcher, "a:2")
    assert isinstance(third, Forward), "a call that failed holds nothing"
    late = asked(dispatcher, "a:3", monotonic_ns() - QUEUE_NS)
    assert isinstance(late, Serve) and (late.outcome, late.reason) == ("error", "address_busy")
    inner.decision = Wait(inner.moved(), 1)
    wait = asked(dispatcher, "a:4")
    assert isinstance(wait, Wait) and wait.seen == dispatcher.moved(), "a wait behind it is not woken by places"
    inner.decision = Work(lambda: Wait(inner.moved(), 1))
    work = asked(dispatcher, "a:5")
    assert isinstance(work, Work)
    ended = work.step()
    assert isinstance(ended, Wait) and ended.seen == dispatcher.moved(), "nor is one that a large request ends in"
