"""Audits of what a proxy answers over Thrift, as from another machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Final

import pytest

from hms_cache_proxy.config import Address
from hms_cache_proxy.errors import AuditError, StoreError
from hms_cache_proxy.pipeline.audit_plan import AuditPlan, Sample
from hms_cache_proxy.pipeline.audit_progress import AuditProgress
from hms_cache_proxy.pipeline.audit_proxy import ProxyAudit
from hms_cache_proxy.pipeline.progress import LineReport
from tests.pipeline.conftest import World
from tests.pipeline.test_audit_sqlite import kinds, rows_of
from tests.proxy import Proxy
from tests.testbed import objects
from tests.testbed.bed import Bed
from tests.testbed.client import MetastoreClient
from tests.testbed.processes import free_port

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")
SILENT = LineReport(lambda line: None)
NewProxy = Callable[..., Proxy]
DATABASE = "audited"
SHORT_S, LONG_S = 1.0, 300.0
PATIENT = {"MAX_UNCONFIRMED_MS": "3600000", "LIST_ORDER": "name"}
"""However slow the machine, the cache answers, for lists, too."""


def proxy_audit(proxy: Proxy, plan: AuditPlan, settle_s: float, report: LineReport = SILENT) -> ProxyAudit:
    return ProxyAudit(plan, Address(*proxy.address), report, settle_s=settle_s)


def test_nothing_while_it_changes(embedded_world: World, new_proxy: NewProxy) -> None:
    """Between any two rounds, too. Most of it is answered from the cache."""
    proxy = new_proxy(embedded_world.metastore, settings=PATIENT)

    class Changing(LineReport):
        def at(self, name: str, done: int, total: int) -> None:
            embedded_world.changes.one()

    report = Changing(lambda line: None)
    audit = proxy_audit(proxy, AuditPlan(embedded_world.config), LONG_S, report)
    found = replace(audit, round_cost=200).run()
    assert not found.differences, found
    assert found.compared["tables"] > 50 and found.compared["partitions"] > 100
    assert found.event_id > found.first_event_id
    asked = ("get_table_objects_by_name_req", "get_partitions_by_names")
    hits = sum(
        number for (method, outcome, _), number in proxy.requests().items() if method in asked and outcome == "hit"
    )
    assert hits > 10


def change_owner(world: World, owner: str) -> None:
    """Of a table, without an event."""
    where = f"""SELECT "DB_ID" FROM "DBS" WHERE "NAME" = '{DATABASE}'"""
    world.rows(f"""UPDATE "TBLS" SET "OWNER" = '{owner}' WHERE "TBL_NAME" = 'plain' AND "DB_ID" = ({where})""")


@pytest.fixture
def stale(embedded_world: World, new_proxy: NewProxy) -> Proxy:
    """A proxy of a database in which two tables and a partition were changed without an event."""
    with MetastoreClient(*embedded_world.metastore.address) as client:
        objects.create_database(client, DATABASE)
        table = objects.create_table(client, objects.table(DATABASE, "parts", (("id", "int"),), (("ds", "string"),)))
        client.add_partitions([objects.partition(table, [str(day)], {"mark": "first"}) for day in range(4)])
        for name in ("plain", "renamed"):
            objects.create_table(client, objects.table(DATABASE, name, (("id", "int"),)))
    proxy = new_proxy(embedded_world.metastore, settings=PATIENT)
    change_owner(embedded_world, "someone else")
    embedded_world.rows("""UPDATE "TBLS" SET "TBL_NAME" = 'otherwise' WHERE "TBL_NAME" = 'renamed'""")
    embedded_world.rows(
        """UPDATE "PARTITION_PARAMS" SET "PARAM_VALUE" = 'changed' WHERE "PARAM_KEY" = 'mark' AND "PART_ID" IN"""
        """ (SELECT "PART_ID" FROM "PARTITIONS" WHERE "PART_NAME" = 'ds=2')"""
    )
    return proxy


PLANTED: Final = Counter(
    [
        ("table", "different", "owner"),
        ("table", "missing", None),
        ("table", "missing", "listed"),
        ("table", "extra", "listed"),
        ("partition", "different", "parameters"),
    ]
)


@pytest.fixture(autouse=True)
def tidy(embedded_world: World) -> None:
    """The next test of this module finds no database of this one's."""
    with MetastoreClient(*embedded_world.metastore.address) as client:
        if DATABASE in client.get_all_databases():
            client.drop_database(DATABASE, True, True)


def test_what_a_proxy_has_not_noticed(embedded_world: World, stale: Proxy, tmp_path: Path) -> None:
    out = tmp_path / "out"
    found = proxy_audit(stale, AuditPlan(embedded_world.config, out.as_uri()), SHORT_S).run()
    assert kinds(found) == PLANTED == rows_of(out)
    assert {row.database for row in found.shown} == {DATABASE} and found.unsettled == 0


def test_what_never_stands_still(embedded_world: World, stale: Proxy) -> None:
    """It is counted, and is no difference: nobody can tell whether the proxy is wrong, or only late."""
    owners = count()

    def tell(line: str) -> None:
        if "differ, and are read again" in line:
            change_owner(embedded_world, f"owner {next(owners)}")

    found = proxy_audit(stale, AuditPlan(embedded_world.config), SHORT_S, LineReport(tell)).run()
    assert kinds(found) == PLANTED - Counter({("table", "different", "owner"): 1}) and found.unsettled == 1


def test_resumed(embedded_world: World, stale: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = AuditPlan(embedded_world.config, (tmp_path / "out").as_uri())
    done = AuditProgress.partitions_done

    def interrupted(progress: AuditProgress, *arguments: object) -> None:
        done(progress, *arguments)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(AuditProgress, "partitions_done", interrupted)
    with pytest.raises(KeyboardInterrupt):
        replace(proxy_audit(stale, plan, SHORT_S), round_cost=1).run()
    monkeypatch.setattr(AuditProgress, "partitions_done", done)
    again = proxy_audit(stale, AuditPlan(embedded_world.config, plan.out, resume=True), SHORT_S)
    found = replace(again, round_cost=1).run()
    assert kinds(found) == PLANTED == rows_of(tmp_path / "out")


def test_a_sample(embedded_world: World, new_proxy: NewProxy) -> None:
    proxy = new_proxy(embedded_world.metastore, settings=PATIENT)
    found = proxy_audit(proxy, AuditPlan(embedded_world.config, "", Sample(0.3, 1)), LONG_S).run()
    whole = proxy_audit(proxy, AuditPlan(embedded_world.config), LONG_S).run()
    assert not found.differences and not whole.differences
    assert 0 < found.compared["tables"] < whole.compared["tables"]


def test_no_proxy_there(embedded_world: World) -> None:
    with pytest.raises(StoreError, match="refused"):
        ProxyAudit(AuditPlan(embedded_world.config), Address("127.0.0.1", free_port()), SILENT).run()


def test_a_proxy_of_another_database(embedded_world: World, bed: Bed, new_proxy: NewProxy) -> None:
    other = bed.private_metastore("embedded")
    with MetastoreClient(*other.address) as client:
        client.get_metastore_db_uuid()
    proxy = new_proxy(other)
    with pytest.raises(AuditError, match="is of another database than store_url"):
        proxy_audit(proxy, AuditPlan(embedded_world.config), SHORT_S).run()
    proxy.stop()
    bed.release(other)
