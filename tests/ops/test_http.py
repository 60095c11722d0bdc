"""The HTTP addresses of a real proxy: paths, keys, codes; flush with and without a token."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from hms_cache_proxy.metric_table import TABLE
from tests.proxy import Proxy
from tests.testbed.bed import Bed
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore
from tests.testbed.objects import create_database, create_table, read_table, table
from tests.testbed.processes import SOON_S

pytestmark = pytest.mark.real
NewProxy = Callable[..., Proxy]
NOTED = "_noted"

# Keys that the design fixes; the others may grow.
STATUS = {
    "cursor_event_id": int,
    "upstream_event_id": int,
    "confirmed_ms_ago": int,
    "prewarm": {"done": bool, "tables_done": int, "tables_total": int, "partitions_done": int},
    "objects": {"databases": int, "tables": int, "partitions": int},
    "cache_bytes": int,
    "mode": str,
    "upstream": {"uri": str, "version": str, "reachable": bool, "since_s": float, "all": list},
}

CHANGED_NOTE = """
UPDATE "TABLE_PARAMS" SET "PARAM_VALUE" = %s
WHERE "PARAM_KEY" = 'note' AND "TBL_ID" IN (SELECT "TBL_ID" FROM "TBLS" JOIN "DBS" USING ("DB_ID") WHERE "NAME" = %s)
"""


def conforms(value: object, shape: object) -> bool:
    if isinstance(shape, dict):
        return isinstance(value, dict) and all(key in value and conforms(value[key], shape[key]) for key in shape)
    assert isinstance(shape, type)
    return isinstance(value, shape)


def post(proxy: Proxy, path: str, headers: dict[str, str] | None = None) -> tuple[int, dict[str, object]]:
    url = f"http://127.0.0.1:{proxy.admin_port}{path}"
    request = urllib.request.Request(url, method="POST", headers=headers or {})
    try:
        with urllib.request.urlopen(request, timeout=SOON_S) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def code_of(url: str) -> int:
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(url, timeout=SOON_S)
    caught.value.close()
    return caught.value.code


@pytest.fixture(scope="module")
def name() -> str:
    """A database with a table `t`, and the beginning of the name of another, whose table has a note."""
    return f"http_{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="module")
def proxy(bed: Bed, name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """A prewarmed one for the tests that change none of its settings and nothing at the metastore."""
    metastore = bed.shared("hive42")
    assert metastore.database is not None
    with MetastoreClient(*metastore.address) as client:
        create_database(client, name)
        create_table(client, table(name, "t"))
        create_database(client, name + NOTED)
        create_table(client, table(name + NOTED, "t", parameters={"note": "0"}))
    started = Proxy(tmp_path_factory.mktemp("proxy"), metastore.uri, metastore.database.reader_url)
    yield started.start(prewarmed=True)
    started.close()


def test_paths_and_keys(proxy: Proxy, hms42: Metastore, name: str) -> None:
    with MetastoreClient(*proxy.address) as client:
        client.get_table(name, "t")
    proxy.wait(lambda: proxy.requests(), "counted")
    proxy.wait(lambda: proxy.status()["cursor_event_id"] == proxy.status()["upstream_event_id"], "up to date")
    status = proxy.status()
    assert conforms(status, STATUS), status
    assert status["ready"] and status["not_ready"] is None
    assert status["prewarm"]["tables_done"] == status["prewarm"]["tables_total"] >= 1
    assert status["objects"]["databases"] >= 2 and status["objects"]["tables"] >= 1
    assert status["cursor_event_id"] == status["upstream_event_id"] > 0
    assert status["upstream"]["uri"] == hms42.uri
    assert proxy.get("/readyz") == (200, "ready\n")
    assert proxy.get("/healthz") == (200, "alive\n")
    assert proxy.get("/nothing")[0] == 404
    code, page = proxy.get("/")
    assert code == 200 and page.startswith("<!doctype html>") and "http" not in page.split("<script>")[0]
    assert code_of(f"http://127.0.0.1:{proxy.admin_port}/status") == 404  # the admin address has its own paths only
    declared = {metric.name.removesuffix("_total") for metric in TABLE}
    families = list(text_string_to_metric_families(proxy.get("/metrics")[1]))
    assert {family.name for family in families} <= declared
    assert all(family.documentation for family in families)


def test_flush(proxy: Proxy, name: str) -> None:
    for path, targets in [
        ("/admin/flush", 1),
        (f"/admin/flush?db={name}&table=t", 3),
        (f"/admin/flush?db={name}&table=t&partition=p%3D1", 3),
        (f"/admin/flush?db={name}", 6),
        (f"/admin/flush?db=no_{name}", 4),
        (f"/admin/flush?db=no_{name}&table=no", 3),
        (f"/admin/flush?catalog=nowhere&db={name}", 4),
    ]:
        code, answer = post(proxy, path)
        assert code == 200, answer
        assert answer["done"] is True, (path, answer)
        assert answer["targets"] == targets, (path, answer)
    with MetastoreClient(*proxy.address) as client:
        assert client.get_table(name, "t").tableName == "t"


def is_hit(proxy: Proxy, client: MetastoreClient, name: str) -> bool:
    """Does the cache answer a read of its table `t` now?"""
    hit = ("get_table_req", "hit", "")
    before = proxy.requests().get(hit, 0)
    read_table(client, name, "t")
    return proxy.requests().get(hit, 0) == before + 1


def test_flush_reads_again_what_no_event_tells_of(proxy: Proxy, hms42: Metastore, name: str) -> None:
    """A row of the metastore's database is changed past the metastore: its log says nothing of it."""
    name += NOTED
    assert hms42.database is not None
    with MetastoreClient(*proxy.address) as client, hms42.database.connect() as connection:
        for number, query in enumerate((f"db={name}&table=t", f"db={name}", "")):
            proxy.wait(lambda: is_hit(proxy, client, name), "answering from the cache")
            with connection.cursor() as cursor:
                cursor.execute(CHANGED_NOTE, (str(number + 1), name))
            assert read_table(client, name, "t").parameters["note"] == str(number), "the cache has not read it"
            proxy.flush(query)
            assert read_table(client, name, "t").parameters["note"] == str(number + 1), query


def test_flush_refuses_what_it_does_not_understand(new_proxy: NewProxy, hms42: Metastore) -> None:
    proxy = new_proxy(hms42, prewarmed=False, settings={"STORE": "none"})
    for query, words in [
        ("?tabel=x", "unknown parameter tabel"),
        ("?table=x", "table needs db"),
        ("?db=x&partition=y", "partition needs table"),
        ("?db=", "a parameter is empty"),
    ]:
        code, answer = post(proxy, f"/admin/flush{query}")
        assert code == 400
        assert words in str(answer["error"])
    assert post(proxy, "/admin/flush") == (503, {"error": "nothing is cached: store = none"})
    assert post(proxy, "/admin/flush", {"Origin": "http://evil.example"})[0] == 403


def test_flush_with_a_token(new_proxy: NewProxy, hms42: Metastore) -> None:
    proxy = new_proxy(hms42, settings={"ADMIN_TOKEN": "hush"})
    assert post(proxy, "/admin/flush")[0] == 401
    assert post(proxy, "/admin/flush", {"Authorization": "Bearer hush!"})[0] == 401
    assert post(proxy, "/admin/flush", {"Authorization": "Bearer hush"})[0] == 200
    assert "hush" not in proxy.log.read_text()
