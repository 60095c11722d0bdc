"""The contents of a resource plan: pools, triggers, assignments of triggers to pools, and mappings of users to pools.

Job: carry out the calls; plans.py has whole plans. Only a disabled plan can be edited. If a method does not declare
InvalidOperationException, the refusal is an internal error, as in Hive. Source: ObjectStore of 4.2, compared with
running ones. Owner: the thread of a call.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import delete, insert, select, update

from hms_cache_proxy.embedded.call import Call, reads, writes
from hms_cache_proxy.embedded.database import new_ids
from hms_cache_proxy.embedded.failures import already_exists, internal, invalid_operation, meta, no_such_object
from hms_cache_proxy.embedded.handlers.plans import editable
from hms_cache_proxy.embedded.names import folded
from hms_cache_proxy.embedded.plan_checks import valid_policy
from hms_cache_proxy.embedded.rows import plans as rows
from hms_cache_proxy.embedded.schema import T
from hms_cache_proxy.embedded.values import new
from hms_cache_proxy.wire.spec import Struct

KINDS = ("USER", "GROUP", "APPLICATION")


def _parent_must_exist(call: Call, plan: Any, path: str) -> None:
    parent = path.rpartition(".")[0]
    if parent and folded(parent) not in {row.PATH for row in rows.pools(call, plan)}:
        raise no_such_object("Pool path is invalid, the parent does not exist")


def create_wm_pool(call: Call, args: Struct) -> Struct:
    """Create a pool, at the top or in another pool."""
    given = args.request.pool
    plan = editable(call, given.resourcePlanName, given.ns)
    _parent_must_exist(call, plan, given.poolPath)
    if not valid_policy(given.schedulingPolicy):
        raise invalid_operation(f"Invalid scheduling policy {given.schedulingPolicy}")
    if any(row.PATH == given.poolPath for row in rows.pools(call, plan)):
        raise already_exists("Pool already exists: ")
    row = {
        "POOL_ID": new_ids(call.connection, "MWMPool"),
        "RP_ID": plan.RP_ID,
        "PATH": given.poolPath,
        "ALLOC_FRACTION": given.allocFraction or 0.0,
        "QUERY_PARALLELISM": given.queryParallelism or 0,
        "SCHEDULING_POLICY": given.schedulingPolicy,
    }
    call.execute(insert(T.WM_POOL), row)
    return new("WMCreatePoolResponse")


def alter_wm_pool(call: Call, args: Struct) -> Struct:
    """Change values, or the path, which also moves the pools in it."""
    given = args.request.pool
    plan = editable(call, given.resourcePlanName, given.ns)
    pool = rows.pool(call, plan, args.request.poolPath)
    values: dict[str, Any] = {}
    if given.allocFraction is not None:
        values["ALLOC_FRACTION"] = given.allocFraction
    if given.queryParallelism is not None:
        values["QUERY_PARALLELISM"] = given.queryParallelism
    if given.isSetSchedulingPolicy:
        if not valid_policy(given.schedulingPolicy):
            raise invalid_operation(f"Invalid scheduling policy {given.schedulingPolicy}")
        values["SCHEDULING_POLICY"] = given.schedulingPolicy
    if given.poolPath is not None and given.poolPath != pool.PATH:
        _move(call, plan, pool.PATH, given.poolPath)
    if values:
        call.execute(update(T.WM_POOL).where(T.WM_POOL.c.POOL_ID == pool.POOL_ID).values(**values))
    return new("WMAlterPoolResponse")


def _move(call: Call, plan: Any, old: str, path: str) -> None:
    _parent_must_exist(call, plan, path)
    every = {row.PATH: row.POOL_ID for row in rows.pools(call, plan)}
    moved = {name: path + name[len(old) :] for name in every if name == old or name.startswith(f"{old}.")}
    taken = (every.keys() - moved.keys()) & set(moved.values())
    if taken:
        raise meta(f"there is a pool {min(taken)}")
    for name, to in moved.items():
        call.execute(update(T.WM_POOL).where(T.WM_POOL.c.POOL_ID == every[name]).values(PATH=to))


def drop_wm_pool(call: Call, args: Struct) -> Struct:
    """Drop the only pool whose path begins with the given text, as Hive does."""
    request = args.request
    plan = editable(call, request.resourcePlanName, request.ns)
    path = folded(request.poolPath)
    if plan.PATH == path:
        raise invalid_operation("Cannot drop default pool of a resource plan")
    found = [row for row in rows.pools(call, plan) if row.PATH.startswith(path)]
    if any(row.PATH.startswith(f"{path}.") for row in found):
        raise invalid_operation("Cannot drop a pool that has child pools")
    if len(found) != 1:
        raise no_such_object(f"Cannot delete pool: {path}")
    pool_id = found[0].POOL_ID
    if pool_id == plan.DEFAULT_POOL_ID or any(row.POOL_ID == pool_id for row in rows.mappings(call, plan)):
        raise invalid_operation("Please remove all mappings for this pool.")
    call.execute(delete(T.WM_POOL_TO_TRIGGER).where(T.WM_POOL_TO_TRIGGER.c.POOL_ID == pool_id))
    call.execute(delete(T.WM_POOL).where(T.WM_POOL.c.POOL_ID == pool_id))
    return new("WMDropPoolResponse")


def create_wm_trigger(call: Call, args: Struct) -> Struct:
    """Create a trigger, which is in no pool."""
    given = args.request.trigger
    plan = editable(call, given.resourcePlanName, given.ns)
    name = folded(given.triggerName)
    if any(row.NAME == name for row in rows.triggers(call, plan)):
        raise already_exists("Trigger already exists, use alter: ")
    row = {
        "TRIGGER_ID": new_ids(call.connection, "MWMTrigger"),
        "RP_ID": plan.RP_ID,
        "NAME": name,
        "TRIGGER_EXPRESSION": given.triggerExpression,
        "ACTION_EXPRESSION": given.actionExpression,
        "IS_IN_UNMANAGED": int(bool(given.isInUnmanaged)),
    }
    call.execute(insert(T.WM_TRIGGER), row)
    return new("WMCreateTriggerResponse")


def alter_wm_trigger(call: Call, args: Struct) -> Struct:
    """Change the given values of a trigger."""
    given = args.request.trigger
    plan = editable(call, given.resourcePlanName, given.ns)
    trigger = rows.trigger(call, plan, given.triggerName)
    unmanaged = None if given.isInUnmanaged is None else int(given.isInUnmanaged)
    values = {
        "TRIGGER_EXPRESSION": given.triggerExpression,
        "ACTION_EXPRESSION": given.actionExpression,
        "IS_IN_UNMANAGED": unmanaged,
    }
    values = {name: value for name, value in values.items() if value is not None}
    if values:
        call.execute(update(T.WM_TRIGGER).where(T.WM_TRIGGER.c.TRIGGER_ID == trigger.TRIGGER_ID).values(**values))
    return new("WMAlterTriggerResponse")


def drop_wm_trigger(call: Call, args: Struct) -> Struct:
    """Drop a trigger, also from all pools."""
    request = args.request
    plan = editable(call, request.resourcePlanName, request.ns)
    name = folded(request.triggerName)
    found = next((row for row in rows.triggers(call, plan) if row.NAME == name), None)
    if found is None:
        raise no_such_object(f"Cannot delete trigger: {name}")
    call.execute(delete(T.WM_POOL_TO_TRIGGER).where(T.WM_POOL_TO_TRIGGER.c.TRIGGER_ID == found.TRIGGER_ID))
    call.execute(delete(T.WM_TRIGGER).where(T.WM_TRIGGER.c.TRIGGER_ID == found.TRIGGER_ID))
    return new("WMDropTriggerResponse")


def get_triggers_for_resourceplan(call: Call, args: Struct) -> Struct:
    """The triggers of a plan, with the plan's name as in the request."""
    name = args.request.resourcePlanName
    plan = rows.named(call, name, args.request.ns)
    triggers = [rows.as_trigger(row, plan, name) for row in rows.triggers(call, plan)]
    return new("WMGetTriggersForResourePlanResponse", triggers=triggers)


def create_or_drop_wm_trigger_to_pool_mapping(call: Call, args: Struct) -> Struct:
    """Assign a trigger to a pool, or remove the assignment; repeating a call changes nothing."""
    request = args.request
    plan = editable(call, request.resourcePlanName, request.ns)
    pool = rows.pool(call, plan, request.poolPath)
    trigger = rows.trigger(call, plan, request.triggerName)
    columns = T.WM_POOL_TO_TRIGGER.c
    mine = (columns.POOL_ID == pool.POOL_ID) & (columns.TRIGGER_ID == trigger.TRIGGER_ID)
    known = call.execute(select(columns.POOL_ID).where(mine)).first() is not None
    if request.drop:
        call.execute(delete(T.WM_POOL_TO_TRIGGER).where(mine))
    elif not known:
        call.execute(insert(T.WM_POOL_TO_TRIGGER), {"POOL_ID": pool.POOL_ID, "TRIGGER_ID": trigger.TRIGGER_ID})
    return new("WMCreateOrDropTriggerToPoolMappingResponse")


def create_or_update_wm_mapping(call: Call, args: Struct) -> Struct:
    """Map a user, group or application to a pool, or to none."""
    given = args.request.mapping
    kind = given.entityType.strip().upper()
    if kind not in KINDS:
        raise internal(f"No enum constant {kind}")
    name = folded(given.entityName)
    plan = editable(call, given.resourcePlanName, given.ns)
    pool_id = None if given.poolPath is None else rows.pool(call, plan, given.poolPath).POOL_ID
    known = _mapping(call, plan, kind, name)
    if args.request.update:
        if known is None:
            raise internal("there is no such mapping")
        mine = T.WM_MAPPING.c.MAPPING_ID == known.MAPPING_ID
        call.execute(update(T.WM_MAPPING).where(mine).values(POOL_ID=pool_id))
        return new("WMCreateOrUpdateMappingResponse")
    if known is not None:
        raise meta(f"there is a mapping of {kind} {name}")
    row = {
        "MAPPING_ID": new_ids(call.connection, "MWMMapping"),
        "RP_ID": plan.RP_ID,
        "ENTITY_TYPE": kind,
        "ENTITY_NAME": name,
        "POOL_ID": pool_id,
        "ORDERING": given.ordering or 0,
    }
    call.execute(insert(T.WM_MAPPING), row)
    return new("WMCreateOrUpdateMappingResponse")


def _mapping(call: Call, plan: Any, kind: str, name: str) -> Any | None:
    found = rows.mappings(call, plan)
    return next((row for row in found if (row.ENTITY_TYPE, row.ENTITY_NAME) == (kind, name)), None)


def drop_wm_mapping(call: Call, args: Struct) -> Struct:
    """Drop a mapping: the default pool then applies."""
    given = args.request.mapping
    plan = editable(call, given.resourcePlanName, given.ns)
    known = _mapping(call, plan, given.entityType.strip().upper(), folded(given.entityName))
    if known is None:
        raise no_such_object("Cannot delete mapping.")
    call.execute(delete(T.WM_MAPPING).where(T.WM_MAPPING.c.MAPPING_ID == known.MAPPING_ID))
    return new("WMDropMappingResponse")


METHODS = {
    **reads(get_triggers_for_resourceplan=get_triggers_for_resourceplan),
    **writes(
        create_wm_pool=create_wm_pool,
        alter_wm_pool=alter_wm_pool,
        drop_wm_pool=drop_wm_pool,
        create_wm_trigger=create_wm_trigger,
        alter_wm_trigger=alter_wm_trigger,
        drop_wm_trigger=drop_wm_trigger,
        create_or_drop_wm_trigger_to_pool_mapping=create_or_drop_wm_trigger_to_pool_mapping,
        create_or_update_wm_mapping=create_or_update_wm_mapping,
        drop_wm_mapping=drop_wm_mapping,
    ),
}
