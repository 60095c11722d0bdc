"""Facts about methods that stand beside one feature, not in the method table: a method that they lack is found."""

from __future__ import annotations

from hms_cache_proxy.methods import bridge, creations, protection
from hms_cache_proxy.methods.table import METHODS, MethodKind
from hms_cache_proxy.methods.ttl import kinds
from hms_cache_proxy.recording.allowed import ALSO_ALLOWED
from hms_cache_proxy.wire import facts

ALWAYS_RELAYED = frozenset(
    "get_all_materialized_view_objects_for_rewriting get_materialization_invalidation_info isPartitionMarkedForEvent"
    " translate_table_dryrun".split()
)
"""Reads without a kind in TTL mode."""

NOT_RECORDED = frozenset(
    # secrets, and settings and objects that may contain passwords
    "get_token get_all_token_identifiers get_master_keys getMetaConf get_config_value getOption getOptions"
    " get_dataconnector_req get_dataconnectors get_properties"
    # what others do: events, transactions, locks, compactions, replication, scheduled queries
    " get_all_write_event_info get_latest_txnid_in_conflict get_open_txns_info get_replayed_txns_for_policy"
    " get_latest_committed_compaction_info show_compact show_locks get_replication_metrics get_scheduled_query"
    # the server's counters and files, and questions that no planner asks
    " getCounter getCounters getCpuProfile get_file_metadata get_file_metadata_by_expr find_columns_with_stats"
    " validate_resource_plan".split()
)


def test_reads_in_ttl_mode() -> None:
    """A new read needs a kind, or belongs in the list."""
    reads = {name for name, row in METHODS.items() if row.kind is MethodKind.READ}
    assert reads - kinds.KINDS.keys() == ALWAYS_RELAYED
    assert all(METHODS[name].changes_nothing for name in kinds.KINDS.keys() - reads)


def test_calls_that_only_read_are_recorded_or_left_out() -> None:
    """A new one belongs in one of the lists."""
    reads = {name for name, row in METHODS.items() if row.changes_nothing}
    assert reads == ALSO_ALLOWED | NOT_RECORDED
    assert not ALSO_ALLOWED & NOT_RECORDED


def test_reads_of_statistics_are_known_to_change_without_an_event() -> None:
    reads = {name for name, row in METHODS.items() if row.kind is MethodKind.READ and "stat" in name}
    assert {name for name, row in METHODS.items() if row.unlogged_before_4} == reads
    keys = {name for name, row in METHODS.items() if row.kind is MethodKind.READ and name.endswith("_keys")}
    assert {name for name, row in METHODS.items() if row.unlogged_in_2_3} == keys


def test_grants() -> None:
    grants = {name for name in METHODS if "PrivilegeBag" in types_of(name) and METHODS[name].kind is MethodKind.WRITE}
    assert grants == protection._GRANTS


def test_creations() -> None:
    """Each either has a place for capabilities or is turned into a call that has one."""
    created = {name.encode() for name in METHODS if name.startswith("create_") and "Table" in types_of(name)}
    assert created == {*creations.CREATED_BY, creations.CREATE}


def test_writes_that_add_keys() -> None:
    fields = {"primaryKeys", "primaryKeyCols"}
    adding = {name for name in METHODS if fields & fields_of(name) and METHODS[name].kind is MethodKind.WRITE}
    assert adding == set(kinds._ADDS_KEYS)


def test_twins() -> None:
    """Reads that later releases lack, and that have a successor there."""
    latest = facts.METHODS["get_table_req"].versions[-1]
    gone = {
        name
        for name, row in METHODS.items()
        if row.reads and latest not in facts.METHODS[name].versions and f"{name}_req" in METHODS
    }
    assert {name.encode(): f"{name}_req".encode() for name in gone} == bridge.TWINS


def types_of(method: str) -> set[str]:
    """The types of its arguments, and of the fields of those that are structs."""
    own = {row.type for row in facts.METHODS[method].args}
    return own | {row.type for name in own.intersection(facts.STRUCTS) for row in facts.fields(name)}


def fields_of(method: str) -> set[str]:
    """The names of its arguments, and of the fields of those that are structs."""
    args = facts.METHODS[method].args
    below = {field.name for row in args if row.type in facts.STRUCTS for field in facts.fields(row.type)}
    return {row.name for row in args} | below
