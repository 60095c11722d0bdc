"""The calls about resource plans that Hive and the embedded metastore are asked.

Job: lists of (method, arguments). The database's name is the plans' namespace, so that metastores can be shared. What
Hive answers with its database's own text (a name that is there already) is left out: test_like_hive_mariadb.py has it.
"""

from __future__ import annotations

from typing import Any

from tests.embedded.differential import Step, struct

ACTIVE, ENABLED, DISABLED = 1, 2, 3
_FLAGS = ("isEnableAndActivate", "isForceDeactivate", "isReplace")


class Plans:
    """Calls about plans of a namespace."""

    def __init__(self, space: str) -> None:
        self.space = space

    def make(self, name: str, copied: str | None = None, **fields: Any) -> Step:
        plan = struct("WMResourcePlan", name=name, ns=self.space, **fields)
        request = struct("WMCreateResourcePlanRequest", resourcePlan=plan, copyFrom=copied)
        return "create_resource_plan", {"request": request}

    def alter(self, plan: str | None, **fields: Any) -> Step:
        flags = {flag: fields.pop(flag) for flag in _FLAGS if flag in fields}
        changes = struct("WMNullableResourcePlan", **fields)
        values = {"resourcePlanName": plan, "resourcePlan": changes, "ns": self.space, **flags}
        return "alter_resource_plan", {"request": struct("WMAlterResourcePlanRequest", **values)}

    def plan(self, method: str, kind: str, name: str | None = None, **fields: Any) -> Step:
        given = {"ns": self.space, **({} if name is None else {"resourcePlanName": name}), **fields}
        return method, {"request": struct(kind, **given)}

    def get(self, name: str) -> Step:
        return self.plan("get_resource_plan", "WMGetResourcePlanRequest", name)

    def active(self) -> Step:
        return self.plan("get_active_resource_plan", "WMGetActiveResourcePlanRequest")

    def every(self) -> Step:
        return self.plan("get_all_resource_plans", "WMGetAllResourcePlanRequest")

    def check(self, name: str, **fields: Any) -> Step:
        return self.plan("validate_resource_plan", "WMValidateResourcePlanRequest", name, **fields)

    def drop(self, name: str, **fields: Any) -> Step:
        return self.plan("drop_resource_plan", "WMDropResourcePlanRequest", name, **fields)

    def pool(self, plan: str, path: str, fraction: float | None = 0.5, parallel: int | None = 2, **fields: Any) -> Step:
        values = {"allocFraction": fraction, "queryParallelism": parallel, "ns": self.space, **fields}
        pool = struct("WMPool", resourcePlanName=plan, poolPath=path, **values)
        return "create_wm_pool", {"request": struct("WMCreatePoolRequest", pool=pool)}

    def alter_pool(self, plan: str, path: str, to: str, **fields: Any) -> Step:
        pool = struct("WMNullablePool", resourcePlanName=plan, poolPath=to, ns=self.space, **fields)
        return "alter_wm_pool", {"request": struct("WMAlterPoolRequest", pool=pool, poolPath=path)}

    def drop_pool(self, plan: str, path: str) -> Step:
        return self.plan("drop_wm_pool", "WMDropPoolRequest", plan, poolPath=path)

    def trigger(self, plan: str, name: str, verb: str = "create", **fields: Any) -> Step:
        values = {"triggerExpression": "X > 1", "actionExpression": "KILL", "ns": self.space, **fields}
        trigger = struct("WMTrigger", resourcePlanName=plan, triggerName=name, **values)
        kind = f"WM{verb.capitalize()}TriggerRequest"
        return f"{verb}_wm_trigger", {"request": struct(kind, trigger=trigger)}

    def drop_trigger(self, plan: str, name: str) -> Step:
        return self.plan("drop_wm_trigger", "WMDropTriggerRequest", plan, triggerName=name)

    def triggers(self, plan: str) -> Step:
        return self.plan("get_triggers_for_resourceplan", "WMGetTriggersForResourePlanRequest", plan)

    def fires(self, plan: str, trigger: str, path: str, *, drop: bool = False) -> Step:
        fields = {"triggerName": trigger, "poolPath": path, "drop": drop}
        kind = "WMCreateOrDropTriggerToPoolMappingRequest"
        return self.plan("create_or_drop_wm_trigger_to_pool_mapping", kind, plan, **fields)

    def goes(self, plan: str, kind: str, name: str, path: str | None, *, update: bool = False, **fields: Any) -> Step:
        values = {"entityType": kind, "entityName": name, "poolPath": path, "ns": self.space, **fields}
        mapping = struct("WMMapping", resourcePlanName=plan, **values)
        return "create_or_update_wm_mapping", {
            "request": struct("WMCreateOrUpdateMappingRequest", mapping=mapping, update=update)
        }

    def drop_mapping(self, plan: str, kind: str, name: str) -> Step:
        mapping = struct("WMMapping", resourcePlanName=plan, entityType=kind, entityName=name, ns=self.space)
        return "drop_wm_mapping", {"request": struct("WMDropMappingRequest", mapping=mapping)}


def pools(db: str) -> list[Step]:
    """What is in a plan."""
    p = Plans(db)
    scheduled = {"isSetSchedulingPolicy": True}
    return [
        p.make("day", queryParallelism=4),
        *(p.get(name) for name in ("DAY ", "nope")),
        p.pool("day", "default.etl"),
        p.pool("nope", "x"),
        p.pool("day", "nope.x"),
        p.pool("day", "bad", schedulingPolicy="bad"),
        p.pool("day", "etl", 0.0, 1, schedulingPolicy="fair"),
        p.pool("day", "UP", 0.0, 1),
        p.pool("day", "UP.x", 0.0, 1),
        p.pool("day", "q", 0.0, 0),
        p.pool("day", "q2", None, None),
        p.get("day"),
        p.check("day"),
        *(p.drop_pool("day", path) for path in ("q", "up", "e", "default", "nope", "q2", "q")),
        p.goes("day", "USER", "Ann", "default.etl"),
        p.goes("day", " group ", "all", None, ordering=2),
        p.goes("day", "application", "x", "DEFAULT "),
        p.goes("day", "nokind", "x", None),
        p.goes("day", "USER", "y", "nope"),
        p.goes("day", "USER", "ann", "default", update=True, ordering=9),
        p.goes("day", "USER", "nobody", "default", update=True),
        p.trigger("day", "slow"),
        p.trigger("day", "Huge", isInUnmanaged=True),
        p.trigger("nope", "slow"),
        p.trigger("day", "slow", "alter", triggerExpression="Y > 1", actionExpression=None, isInUnmanaged=True),
        p.trigger("day", "nope", "alter"),
        *(p.triggers(name) for name in ("day", "DAY", "nope")),
        *[p.fires("day", "slow", "default.etl")] * 2,
        p.fires("day", "huge", "default"),
        p.fires("day", "nope", "default"),
        p.fires("day", "slow", "nope"),
        p.get("day"),
        *[p.fires("day", "huge", "default", drop=True)] * 2,
        p.drop_trigger("day", "slow"),
        p.drop_trigger("day", "slow"),
        p.goes("day", "USER", "ann", None, update=True),
        p.drop_mapping("day", "group", "ALL"),
        p.drop_mapping("day", "group", "all"),
        p.drop_pool("day", "UP"),
        p.alter_pool("day", "default.etl", "default.etl", queryParallelism=3, allocFraction=0.7),
        p.alter_pool("day", "default.etl", "default.new", schedulingPolicy="fifo", **scheduled),
        p.alter_pool("day", "default.new", "default.new", schedulingPolicy="bad", **scheduled),
        p.alter_pool("day", "default.new", "default.new", **scheduled),
        p.alter_pool("day", "nope", "x"),
        p.alter_pool("day", "default.new", "nope.x"),
        p.alter_pool("day", "default", "Main"),
        p.alter_pool("day", "Main", "main"),
        p.get("day"),
        p.drop("day"),
        p.drop("day"),
        p.drop("day", ns=None),
        p.check("day"),
    ]


def plans(db: str) -> list[Step]:
    """Whole plans, from one status to another."""
    p = Plans(db)
    at_once, forced = {"isEnableAndActivate": True}, {"isForceDeactivate": True}
    parallel = {"queryParallelism": 8, "isSetQueryParallelism": True}
    return [
        p.make("day", queryParallelism=4),
        p.make(""),
        p.make("z", queryParallelism=0),
        p.pool("day", "default.etl", parallel=0),
        p.goes("day", "USER", "ann", "default.etl"),
        p.trigger("day", "slow"),
        p.fires("day", "slow", "default.etl"),
        *(p.alter("day", status=status) for status in (ACTIVE, ENABLED, DISABLED)),
        p.alter("day", status=ACTIVE, **at_once),
        p.alter_pool("day", "default.etl", "default.etl", queryParallelism=2),
        p.alter("day", status=ENABLED),
        p.alter("day", queryParallelism=8),
        p.alter("day", status=ENABLED, **parallel),
        p.alter("day", queryParallelism=0, isSetQueryParallelism=True),
        p.alter("day", **parallel),
        p.check("day"),
        p.check("day", ns=None),
        *(p.alter("day", name=name) for name in ("", "DAY", "night")),
        p.alter("nope", name="x"),
        p.alter("night", name="day"),
        p.alter("day", status=ACTIVE),
        p.alter("day", status=ENABLED),
        p.active(),
        p.alter("day", status=ACTIVE),
        p.active(),
        p.every(),
        p.pool("day", "x"),
        p.drop_pool("day", "default"),
        p.trigger("day", "t"),
        p.drop_trigger("day", "slow"),
        p.fires("day", "slow", "default"),
        p.goes("day", "USER", "u", None),
        p.drop_mapping("day", "USER", "ann"),
        p.alter("day", name="x"),
        *(p.alter("day", status=status) for status in (DISABLED, ENABLED, ACTIVE)),
        p.drop("day"),
        p.make("copy", "day"),
        p.make("copy2", "nope"),
        p.get("copy"),
        p.alter("copy", defaultPoolPath="nope", isSetDefaultPoolPath=True),
        p.alter("copy", isSetDefaultPoolPath=True, isSetQueryParallelism=True),
        p.get("copy"),
        p.alter("copy", ns="other"),
        p.alter("copy", status=ACTIVE, **at_once),
        p.every(),
        p.alter("day", status=DISABLED),
        p.alter("copy", status=DISABLED, isReplace=True, **at_once),
        p.alter(None, status=DISABLED),
        p.alter(None, status=DISABLED, **forced),
        p.alter(None, status=DISABLED, **forced),
        p.active(),
        p.alter(None, isReplace=True),
        *(p.alter("copy", isReplace=True, name=name) for name in (None, "copy", "nope")),
        p.alter("copy", isReplace=True, status=ACTIVE),
        p.alter("copy", isReplace=True, name="day", status=ACTIVE),
        p.alter("copy", isReplace=True, name="day", queryParallelism=3),
        p.alter("day", status=ACTIVE, **at_once),
        p.alter("copy", isReplace=True, status=ACTIVE),
        p.active(),
        p.make("next"),
        p.make("other"),
        p.alter("next", isReplace=True, name="other"),
        p.every(),
        p.pool("other", "a", 1.5, 0),
        *(p.pool("other", path, 0.75, 1) for path in ("a.b", "a.c")),
        p.check("other"),
        p.drop("other"),
        p.alter("day", status=DISABLED, **forced),
        p.drop("day"),
    ]


PLAN_SCRIPTS = {"pools": pools, "plans": plans}
