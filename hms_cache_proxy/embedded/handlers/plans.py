"""Resource plans of workload management: creating, changing, activating, replacing, dropping them.

Job: carry out the calls about whole plans; pools.py has pools, triggers and mappings. Nothing here enforces a plan:
HiveServer2 does. Source: HMSHandler and ObjectStore of 4.2, compared with running ones.

Only a disabled plan can be edited, and one plan of a namespace is active. If a name exists already, Hive's exception
depends on its database: on PostgreSQL a MetaException with the database's text; on MariaDB AlreadyExistsException, as
here. Owner: the thread of a call.
"""

from __future__ import annotations

import time
from typing import Any

from sqlalchemy import delete, insert, select, update

from hms_cache_proxy.embedded.call import Call, reads, writes
from hms_cache_proxy.embedded.database import new_ids
from hms_cache_proxy.embedded.failures import (
    already_exists,
    internal,
    invalid_object,
    invalid_operation,
    meta,
    no_such_object,
)
from hms_cache_proxy.embedded.names import folded
from hms_cache_proxy.embedded.plan_checks import problems
from hms_cache_proxy.embedded.rows import plans as rows
from hms_cache_proxy.embedded.schema import T
from hms_cache_proxy.embedded.values import new
from hms_cache_proxy.wire.spec import Struct

DEFAULT_POOL = "default"
DEFAULT_POOL_SIZE = 4  # metastore.wm.default.pool.size
_COLUMNS = T.WM_RESOURCEPLAN.c


def editable(call: Call, name: str | None, space: str | None) -> Any:
    """A plan that may be edited. NoSuchObjectException, InvalidOperationException."""
    plan = rows.named(call, name, space)
    if plan.STATUS != rows.DISABLED:
        raise invalid_operation("Resource plan must be disabled to edit it.")
    return plan


def create_resource_plan(call: Call, args: Struct) -> Struct:
    """Create a disabled plan, with one default pool or as a copy of another plan."""
    request = args.request
    given = request.resourcePlan
    name = folded(given.name)
    if not name:
        raise invalid_object("Resource name cannot be empty.")
    if request.copyFrom is None and given.queryParallelism is not None and given.queryParallelism <= 0:
        raise invalid_object("Query parallelism should be positive.")
    if given.ns is not None and rows.find(call, name, given.ns) is not None:
        raise already_exists("Resource plan already exists: ")
    plan_id = new_ids(call.connection, "MWMResourcePlan")
    row = {"RP_ID": plan_id, "NAME": name, "NS": given.ns, "STATUS": rows.DISABLED}
    call.execute(insert(T.WM_RESOURCEPLAN), row)
    if request.copyFrom is not None:
        _copy(call, plan_id, rows.named(call, request.copyFrom, given.ns))
        return new("WMCreateResourcePlanResponse")
    size = DEFAULT_POOL_SIZE if given.queryParallelism is None else given.queryParallelism
    pool = {"PATH": DEFAULT_POOL, "ALLOC_FRACTION": 1.0, "QUERY_PARALLELISM": size, "SCHEDULING_POLICY": None}
    _change(call, plan_id, QUERY_PARALLELISM=given.queryParallelism, DEFAULT_POOL_ID=_add_pool(call, plan_id, pool))
    return new("WMCreateResourcePlanResponse")


def _change(call: Call, plan_id: int, **values: Any) -> None:
    call.execute(update(T.WM_RESOURCEPLAN).where(_COLUMNS.RP_ID == plan_id).values(**values))


def _add_pool(call: Call, plan_id: int, row: dict[str, Any]) -> int:
    pool_id = new_ids(call.connection, "MWMPool")
    call.execute(insert(T.WM_POOL), {"POOL_ID": pool_id, "RP_ID": plan_id, **row})
    return pool_id


def _copy(call: Call, plan_id: int, source: Any) -> None:
    """Copy pools, triggers, their assignments, mappings, and the plan's own values."""
    pools = {row.POOL_ID: _add_pool(call, plan_id, _without(row, "POOL_ID")) for row in rows.pools(call, source)}
    triggers = {}
    for row in rows.triggers(call, source):
        triggers[row.TRIGGER_ID] = new_ids(call.connection, "MWMTrigger")
        copied = {"TRIGGER_ID": triggers[row.TRIGGER_ID], "RP_ID": plan_id, **_without(row, "TRIGGER_ID")}
        call.execute(insert(T.WM_TRIGGER), copied)
    for row in rows.pairs(call, list(pools)):
        pair = {"POOL_ID": pools[row.POOL_ID], "TRIGGER_ID": triggers[row.TRIGGER_ID]}
        call.execute(insert(T.WM_POOL_TO_TRIGGER), pair)
    for row in rows.mappings(call, source):
        copied = {"MAPPING_ID": new_ids(call.connection, "MWMMapping"), "RP_ID": plan_id, **_without(row, "MAPPING_ID")}
        call.execute(insert(T.WM_MAPPING), {**copied, "POOL_ID": pools.get(row.POOL_ID)})
    default = pools.get(source.DEFAULT_POOL_ID)
    _change(call, plan_id, QUERY_PARALLELISM=source.QUERY_PARALLELISM, DEFAULT_POOL_ID=default)


def _without(row: Any, key: str) -> dict[str, Any]:
    """The columns of a row without its key and its plan."""
    return {name: value for name, value in row._mapping.items() if name not in (key, "RP_ID")}


def get_resource_plan(call: Call, args: Struct) -> Struct:
    """A plan with everything in it."""
    plan = rows.named(call, args.request.resourcePlanName, args.request.ns)
    return new("WMGetResourcePlanResponse", resourcePlan=rows.as_full_plan(call, plan))


def get_active_resource_plan(call: Call, args: Struct) -> Struct:
    """The active plan with everything in it; an empty answer if there is none."""
    plan = rows.active(call, args.request.ns)
    return new("WMGetActiveResourcePlanResponse", resourcePlan=plan and rows.as_full_plan(call, plan))


def get_all_resource_plans(call: Call, args: Struct) -> Struct:
    """The plans of a namespace, without pools, triggers and mappings."""
    plans = [rows.as_plan(plan) for plan in rows.listed(call, args.request.ns)]
    return new("WMGetAllResourcePlanResponse", resourcePlans=plans)


def validate_resource_plan(call: Call, args: Struct) -> Struct:
    """The errors that keep a plan from being enabled. An absent namespace is not replaced by the default."""
    request = args.request
    name = folded(request.resourcePlanName)
    plan = rows.find(call, name, request.ns)
    if plan is None:
        raise no_such_object(f"Cannot find resourcePlan: {name} in {request.ns or 'null'}")
    errors, warnings = problems(plan.QUERY_PARALLELISM, rows.pools(call, plan))
    return new("WMValidateResourcePlanResponse", errors=errors, warnings=warnings)


def drop_resource_plan(call: Call, args: Struct) -> Struct:
    """Drop a plan with everything in it, unless it is active."""
    request = args.request
    name = folded(request.resourcePlanName)
    plan = rows.find(call, name, rows.namespace(request.ns))
    if plan is None:
        raise no_such_object(f"There is no resource plan named: {name} in {request.ns or 'null'}")
    if plan.STATUS == rows.ACTIVE:
        raise meta("Cannot drop an active resource plan")
    _change(call, plan.RP_ID, DEFAULT_POOL_ID=None)
    mine = select(T.WM_POOL.c.POOL_ID).where(T.WM_POOL.c.RP_ID == plan.RP_ID)
    call.execute(delete(T.WM_POOL_TO_TRIGGER).where(T.WM_POOL_TO_TRIGGER.c.POOL_ID.in_(mine)))
    for table in (T.WM_TRIGGER, T.WM_MAPPING, T.WM_POOL, T.WM_RESOURCEPLAN):
        call.execute(delete(table).where(table.c.RP_ID == plan.RP_ID))
    return new("WMDropResourcePlanResponse")


def alter_resource_plan(call: Call, args: Struct) -> Struct:
    """Change name, values or status, or replace another plan. Returns the whole plan if it has become active."""
    request = args.request
    flags = (request.isEnableAndActivate, request.isReplace, request.isForceDeactivate)
    if sum(map(bool, flags)) > 1:
        raise meta("Invalid request; multiple flags are set")
    name = None if request.resourcePlanName is None else folded(request.resourcePlanName)
    if request.isReplace and name is None:
        raise invalid_operation("Cannot replace without specifying the source plan")
    plan_id = _replace(call, name or "", request) if request.isReplace else _alter(call, name, request)
    if plan_id is None:
        return new("WMAlterResourcePlanResponse")
    plan = next(row for row in rows.listed(call, request.ns) if row.RP_ID == plan_id)
    return new("WMAlterResourcePlanResponse", fullResourcePlan=rows.as_full_plan(call, plan))


def _alter(call: Call, name: str | None, request: Struct) -> int | None:
    """Change a plan; the id of the plan that becomes active, if any."""
    changes = request.resourcePlan
    if name is None:
        plan = rows.active(call, request.ns)
    elif changes.status is None:
        plan = editable(call, name, request.ns)
    else:
        plan = rows.named(call, name, request.ns)
    if plan is None:
        raise internal("there is no active plan")
    space = rows.namespace(plan.NS)
    if changes.ns is not None and changes.ns != space:
        raise invalid_operation(f"Cannot change ns; from {space} to {changes.ns}")
    edited = changes.isSetQueryParallelism is not None or changes.isSetDefaultPoolPath is not None
    if edited or changes.name is not None and changes.name != name:
        if changes.status is not None:
            raise invalid_operation("Cannot change values during status switch.")
        if plan.STATUS != rows.DISABLED:
            raise invalid_operation("Resource plan must be disabled to edit it.")
    _edit(call, plan, changes)
    if changes.status is None:
        return None
    return _switch(call, name or "null", plan, rows.STATUSES[changes.status], request)


def _edit(call: Call, plan: Any, changes: Struct) -> None:
    if changes.name is not None:
        name = folded(changes.name)
        if not name:
            raise invalid_operation("Cannot rename to empty value.")
        if name != plan.NAME and rows.find(call, name, plan.NS) is not None:
            raise meta(f"there is a resource plan {name} in {plan.NS}")
        _change(call, plan.RP_ID, NAME=name)
    if changes.isSetQueryParallelism:
        if changes.queryParallelism is not None and changes.queryParallelism <= 0:
            raise invalid_operation("queryParallelism should be positive.")
        _change(call, plan.RP_ID, QUERY_PARALLELISM=changes.queryParallelism)
    if changes.isSetDefaultPoolPath:
        path = changes.defaultPoolPath
        pool_id = None if path is None else rows.pool(call, plan, path).POOL_ID
        _change(call, plan.RP_ID, DEFAULT_POOL_ID=pool_id)


def _switch(call: Call, name: str, plan: Any, status: str, request: Struct) -> int | None:
    """Change the status. A plan with errors cannot be enabled; the plan that was active becomes enabled."""
    if status == plan.STATUS:
        return None
    if plan.STATUS == rows.ACTIVE and not request.isForceDeactivate:
        raise invalid_operation(
            f"Resource plan {name} is active; activate another plan first, or disable workload management."
        )
    if plan.STATUS == rows.DISABLED:
        if status == rows.ACTIVE and not request.isEnableAndActivate:
            raise invalid_operation(
                f"Resource plan {name} is disabled and should be enabled before activation (or in the same command)"
            )
        errors, _ = problems(plan.QUERY_PARALLELISM, rows.pools(call, plan))
        if errors:
            raise invalid_operation(f"ResourcePlan: {name} is invalid: [{', '.join(errors)}]")
    if status != rows.ACTIVE:
        _change(call, plan.RP_ID, STATUS=status)
        return None
    other = rows.active(call, plan.NS)
    if other is not None:
        _change(call, other.RP_ID, STATUS=rows.ENABLED)
    _change(call, plan.RP_ID, STATUS=rows.ACTIVE)
    return int(plan.RP_ID)


def _replace(call: Call, name: str, request: Struct) -> int | None:
    """Give a plan another's name and status. The other is kept, disabled, under a name that contains the time."""
    changes = request.resourcePlan
    if changes.queryParallelism is not None or changes.defaultPoolPath is not None:
        raise invalid_operation("Cannot change values during replace.")
    status = None if changes.status is None else rows.STATUSES[changes.status]
    if (changes.name is not None) == (status == rows.ACTIVE):
        told = f"{changes.name or 'null'}, {status or 'null'}"
        raise invalid_operation(f"Must specify a name, or the active plan; received {told}")
    by_name = changes.name is not None
    replaced = rows.named(call, changes.name, request.ns) if by_name else rows.active(call, request.ns)
    plan = rows.named(call, name, request.ns)
    if replaced is None:
        raise internal("there is no active plan")
    if replaced.NAME == plan.NAME:
        raise invalid_operation("A plan cannot replace itself")
    old = f"{replaced.NAME}_old_{time.strftime('%Y_%m_%d_%H_%M_%S')}"
    taken = {row.NAME for row in rows.listed(call, request.ns)}
    candidates = (old if number == 0 else f"{old}_{number}" for number in range(len(taken) + 1))
    copy = next(each for each in candidates if each not in taken)
    _change(call, replaced.RP_ID, NAME=copy, STATUS=rows.DISABLED)
    _change(call, plan.RP_ID, NAME=replaced.NAME, STATUS=replaced.STATUS)
    return int(plan.RP_ID) if replaced.STATUS == rows.ACTIVE else None


METHODS = {
    **reads(
        get_resource_plan=get_resource_plan,
        get_active_resource_plan=get_active_resource_plan,
        get_all_resource_plans=get_all_resource_plans,
        validate_resource_plan=validate_resource_plan,
    ),
    **writes(
        create_resource_plan=create_resource_plan,
        alter_resource_plan=alter_resource_plan,
        drop_resource_plan=drop_resource_plan,
    ),
}
