"""Resource plans of workload management: WM_RESOURCEPLAN, WM_POOL, WM_TRIGGER, WM_POOL_TO_TRIGGER, WM_MAPPING.

Job: find plans, pools and triggers by name; make a struct of a whole plan. Must not know: what may be changed when.
Names of plans and triggers are stored in lower case; paths of pools are stored as given, but looked up in lower case.
Source: ObjectStore of Hive 4.2. Owner: the thread of a call.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import select

from hms_cache_proxy.embedded.call import Call
from hms_cache_proxy.embedded.failures import no_such_object
from hms_cache_proxy.embedded.names import folded
from hms_cache_proxy.embedded.schema import T
from hms_cache_proxy.embedded.values import new
from hms_cache_proxy.wire.facts import enum
from hms_cache_proxy.wire.spec import Struct

ACTIVE, ENABLED, DISABLED = "ACTIVE", "ENABLED", "DISABLED"
STATUSES = {int(member): member.name for member in enum("WMResourcePlanStatus")}
_NUMBERS = {name: number for number, name in STATUSES.items()}


def namespace(given: str | None) -> str:
    """The namespace of a request, or the default one."""
    return "default" if given is None else folded(given)


def find(call: Call, name: str, space: str | None) -> Any | None:
    """The row of a plan with the PATH of its default pool; `space` is None for plans without a namespace."""
    columns = T.WM_RESOURCEPLAN.c
    where = columns.NS.is_(None) if space is None else columns.NS == space
    return call.execute(_plans().where(columns.NAME == name, where)).first()


def named(call: Call, name: str | None, space: str | None) -> Any:
    """The same in a request's namespace; NoSuchObjectException if there is none."""
    key, where = folded(name), namespace(space)
    row = find(call, key, where)
    if row is None:
        raise no_such_object(f"There is no resource plan named: {key} in {where}")
    return row


def active(call: Call, space: str | None) -> Any | None:
    """The active plan."""
    columns = T.WM_RESOURCEPLAN.c
    return call.execute(_plans().where(columns.STATUS == ACTIVE, columns.NS == namespace(space))).first()


def listed(call: Call, space: str | None) -> list[Any]:
    """The plans of a namespace, in the order of creation."""
    columns = T.WM_RESOURCEPLAN.c
    return call.rows(_plans().where(columns.NS == namespace(space)).order_by(columns.RP_ID))


def _plans() -> Any:
    join = T.WM_POOL.c.POOL_ID == T.WM_RESOURCEPLAN.c.DEFAULT_POOL_ID
    return select(T.WM_RESOURCEPLAN, T.WM_POOL.c.PATH).outerjoin(T.WM_POOL, join)


def _of(call: Call, plan: Any, table: Any, key: str) -> list[Any]:
    """A plan's rows in a table (Any: Core's), in the order of creation."""
    return call.rows(select(table).where(table.c.RP_ID == plan.RP_ID).order_by(table.c[key]))


def _called(found: list[Any], column: str, key: str, kind: str) -> Any:
    """The row with this name. NoSuchObjectException if there is none."""
    row = next((row for row in found if row._mapping[column] == key), None)
    if row is None:
        raise no_such_object(f"Cannot find {kind}: {key}")
    return row


def pools(call: Call, plan: Any) -> list[Any]:
    """The pools of a plan, in the order of creation."""
    return _of(call, plan, T.WM_POOL, "POOL_ID")


def pool(call: Call, plan: Any, path: str | None) -> Any:
    """A pool by path, in lower case. NoSuchObjectException."""
    return _called(pools(call, plan), "PATH", folded(path), "pool")


def triggers(call: Call, plan: Any) -> list[Any]:
    """The triggers of a plan, in the order of creation."""
    return _of(call, plan, T.WM_TRIGGER, "TRIGGER_ID")


def trigger(call: Call, plan: Any, name: str | None) -> Any:
    """A trigger by name. NoSuchObjectException."""
    return _called(triggers(call, plan), "NAME", folded(name), "trigger with name")


def mappings(call: Call, plan: Any) -> list[Any]:
    """The mappings to pools, in the order of creation."""
    return _of(call, plan, T.WM_MAPPING, "MAPPING_ID")


def pairs(call: Call, pool_ids: list[int]) -> list[Any]:
    """(POOL_ID, TRIGGER_ID) of some pools."""
    columns = T.WM_POOL_TO_TRIGGER.c
    query = select(columns.POOL_ID, columns.TRIGGER_ID).where(columns.POOL_ID.in_(pool_ids))
    return call.rows(query.order_by(columns.POOL_ID, columns.TRIGGER_ID))


def as_plan(row: Any) -> Struct:
    """A plan without its contents."""
    return new(
        "WMResourcePlan",
        name=row.NAME,
        status=_NUMBERS[row.STATUS],
        queryParallelism=row.QUERY_PARALLELISM,
        defaultPoolPath=row.PATH,
        ns=row.NS,
    )


def as_trigger(row: Any, plan: Any, name: str) -> Struct:
    """A trigger, with the given name of the plan."""
    return new(
        "WMTrigger",
        resourcePlanName=name,
        ns=plan.NS,
        triggerName=row.NAME,
        triggerExpression=row.TRIGGER_EXPRESSION,
        actionExpression=row.ACTION_EXPRESSION,
        isInUnmanaged=bool(row.IS_IN_UNMANAGED),
    )


def as_full_plan(call: Call, plan: Any) -> Struct:
    """A plan with its contents."""
    mine = {"resourcePlanName": plan.NAME, "ns": plan.NS}
    found_pools, found_triggers = pools(call, plan), triggers(call, plan)
    paths = {row.POOL_ID: row.PATH for row in found_pools}
    names = {row.TRIGGER_ID: row.NAME for row in found_triggers}
    fired = [
        new("WMPoolTrigger", pool=paths[row.POOL_ID], trigger=names[row.TRIGGER_ID]) for row in pairs(call, list(paths))
    ]
    mapped = [
        new(
            "WMMapping",
            **mine,
            entityType=row.ENTITY_TYPE,
            entityName=row.ENTITY_NAME,
            poolPath=paths.get(row.POOL_ID),
            ordering=row.ORDERING,
        )
        for row in mappings(call, plan)
    ]
    listed_pools = [
        new(
            "WMPool",
            **mine,
            poolPath=row.PATH,
            allocFraction=row.ALLOC_FRACTION,
            queryParallelism=row.QUERY_PARALLELISM,
            schedulingPolicy=row.SCHEDULING_POLICY,
        )
        for row in found_pools
    ]
    return new(
        "WMFullResourcePlan",
        plan=as_plan(plan),
        pools=listed_pools,
        mappings=mapped or None,
        triggers=[as_trigger(row, plan, plan.NAME) for row in found_triggers] or None,
        poolTriggers=fired or None,
    )
