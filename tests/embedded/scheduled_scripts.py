"""The calls about scheduled queries and replication that Hive and the embedded metastore are asked.

Job: lists of (method, arguments). Schedules are of years to come, so that both see the same next time.
"""

from __future__ import annotations

from typing import Any

from tests.embedded.differential import Step, struct

CREATE, ALTER, DROP = 1, 2, 3
ONCE = "0 0 0 1 1 ? 2036"
GOOD = (
    "0 15 10 ? * 6#3 2036",
    "0 0 0 ? * 2L 2036",
    "0 0 0 ? * FRIL 2036",
    "0 0 0 ? * L 2036",
    "0 0 0 ? 9 FRI-MON 2036",
    "0 0 0 ? 6 6-1 2036",
    "0 0 0 ? * sun-tue 2036",
    "0 0 0 15W 6 ? 2036",
    "0 0 0 1W 3 ? 2036",
    "0 0 0 LW 5 ? 2036",
    "0 0 0 L-3 2 ? 2036",
    "0 0 0 1,L 2 ? 2036",
    "0 0 0 29 2 ? *",
    "5/20 5/20 5/10 5/20 5/5 ? 2036",
    "30-10 0 22-2 25-5 11-2 ? 2036",
    "0 0-5 */7 1-5/2 JAN/2 ? 2030-2036/3",
    " 5,10 * * 1 JAN,JUN ? 2036,2030 ",
)
BAD = (
    "",
    "@daily",
    "* * * * *",
    "0 0 0 * * * *",
    "0 0 0 ? * ? *",
    "60 * * * * ? *",
    "0 0 24 * * ? *",
    "0 0 0 0 * ? *",
    "0 0 0 32 1 ? *",
    "0 0 0 1 13 ? *",
    "0 0 0 ? * 8 *",
    "0 0 0 ? * 2#0 *",
    "0 0 0 W 1 ? *",
    "0 0 0 L-40 * ? *",
    "*/0 0 0 1 1 ? *",
    "0 0/90 0 1 1 ? *",
    "0,,1 0 0 1 1 ? *",
    "0 0 0 1- 1 ? *",
    "0 0 0 1_1 1 ? *",
    "0 0 0 1 1 ? 2100",
    "0 0 0 1 1 ? 2030-2028",
    "0 0 0 1 1 ? 2036 x",
)


class Queries:
    """Calls about scheduled queries of a namespace."""

    def __init__(self, space: str) -> None:
        self.space = space

    def key(self, name: str) -> Any:
        return struct("ScheduledQueryKey", scheduleName=name, clusterNamespace=self.space)

    def keep(self, kind: int, name: str, **fields: Any) -> Step:
        values = {"schedule": ONCE, "user": "me", "query": "select 1", "enabled": True} | fields
        query = struct("ScheduledQuery", scheduleKey=self.key(name), **values)
        request = struct("ScheduledQueryMaintenanceRequest", type=kind, scheduledQuery=query)
        return "scheduled_query_maintenance", {"request": request}

    def get(self, name: str) -> Step:
        return "get_scheduled_query", {"scheduleKey": self.key(name)}

    def poll(self) -> Step:
        return "scheduled_query_poll", {"request": struct("ScheduledQueryPollRequest", clusterNamespace=self.space)}

    def progress(self, execution: int, state: int, **fields: Any) -> Step:
        values = {"scheduledExecutionId": execution, "state": state, "executorQueryId": "q"} | fields
        return "scheduled_query_progress", {"info": struct("ScheduledQueryProgressInfo", **values)}


def scheduled(db: str) -> list[Step]:
    """Queries and when they come next."""
    q = Queries(db)
    schedules = [
        step
        for number, schedule in enumerate((*GOOD, *BAD))
        for step in (q.keep(CREATE, f"q{number}", schedule=schedule), q.get(f"q{number}"))
    ]
    return [
        q.get("a"),
        q.keep(CREATE, "a"),
        q.keep(CREATE, "a"),
        q.get("a"),
        q.get("A"),
        q.keep(CREATE, "off", enabled=None, nextExecution=5),
        q.get("off"),
        q.keep(CREATE, "bare", user=None, query=None),
        q.get("bare"),
        q.keep(CREATE, "none", schedule=None),
        q.keep(ALTER, "a", query="select 2", user=None),
        q.get("a"),
        q.keep(ALTER, "a", schedule="bad"),
        q.keep(ALTER, "a", schedule=None),
        q.keep(ALTER, "nope"),
        q.keep(ALTER, "off", nextExecution=7, enabled=False),
        q.get("off"),
        q.poll(),
        q.keep(DROP, "off"),
        q.keep(DROP, "off"),
        q.get("off"),
        *schedules,
        q.poll(),
    ]


def _metrics(run: int, policy: str, dump: int, **fields: Any) -> Any:
    return struct("ReplicationMetrics", scheduledExecutionId=run, policy=policy, dumpExecutionId=dump, **fields)


def replicated(db: str) -> list[Step]:
    """How runs of replication went; what is answered where nothing is kept."""
    first = int(db.encode().hex()[-12:], 16) * 10  # runs are numbered in a whole metastore

    def add(*metrics: Any) -> Step:
        listed = struct("ReplicationMetricList", replicationMetricList=list(metrics))
        return "add_replication_metrics", {"replicationMetricList": listed}

    def get(**fields: Any) -> Step:
        return "get_replication_metrics", {"rqst": struct("GetReplicationMetricsRequest", **fields)}

    def recycle(path: str) -> Step:
        return "cm_recycle", {"request": struct("CmRecycleRequest", dataPath=path, purge=True)}

    return [
        get(policy=db),
        add(),
        add(_metrics(first, db, 1, metadata="m", progress="p"), _metrics(first + 1, db, 2)),
        get(policy=db),
        add(_metrics(first, "other", 9, progress="p2", messageFormat="json-0.3")),
        get(scheduledExecutionId=first),
        get(scheduledExecutionId=first, policy="other"),
        get(scheduledExecutionId=first + 5),
        get(policy=db, dumpExecutionId=2),
        get(policy=db.upper()),
        get(dumpExecutionId=2),
        recycle("/no/such/path"),
        recycle(""),
        ("clear_file_metadata", {"req": struct("ClearFileMetadataRequest", fileIds=[1])}),
        ("get_properties", {"req": struct("PropertyGetRequest", nameSpace=db, mapPrefix="")}),
        ("set_properties", {"req": struct("PropertySetRequest", nameSpace=db, propertyMap={"a": "b"})}),
    ]


SCHEDULED_SCRIPTS = {"scheduled": scheduled, "replicated": replicated}
