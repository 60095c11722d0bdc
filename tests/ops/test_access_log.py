"""The access log as an operator gets it: a line for each call that is counted, and no call less for its sake."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.proxy import Proxy
from tests.server.conftest import accepts
from tests.testbed import objects
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore
from tests.testbed.processes import wait_until
from tests.testbed.raw import RawConnection, encode_call

SECRET = "a-value-that-is-nobodys-business"


def lines_in(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for path in sorted(directory.iterdir()) for line in path.read_text().splitlines()]


def logging_to(directory: Path, **settings: str) -> dict[str, str]:
    return {"ACCESS_LOG_DIRECTORY": str(directory), **settings}


def found(lines: list[dict[str, Any]], method: str, outcome: str) -> dict[str, Any]:
    """The only such line, without what differs each time."""
    (line,) = [line for line in lines if (line["method"], line["outcome"]) == (method, outcome)]
    return {key: value for key, value in line.items() if key not in ("time", "client", "us")}


def reads_until_one_is_a_hit(proxy: Proxy, connection: RawConnection, read: bytes) -> int:
    """How many: after a relayed call, a connection's reads wait for a step of the follower, which may take long."""

    def hits() -> float:
        return sum(number for key, number in proxy.requests().items() if key[:2] == ("get_table", "hit"))

    before, number = hits(), 0
    while number == 0 or hits() == before:
        connection.call(read)
        number += 1
    return number


@pytest.mark.real
def test_a_line_for_every_call_that_is_counted(
    new_proxy: Callable[..., Proxy], hms42: Metastore, unique_name: str, tmp_path: Path
) -> None:
    logs = tmp_path / "logs"
    with MetastoreClient(*hms42.address) as client:
        objects.create_database(client, unique_name)
        objects.create_table(client, objects.table(unique_name, "orders", [("id", "bigint")], [("day", "string")]))
    proxy = new_proxy(hms42, settings=logging_to(logs, WORKERS="2", INCLUDE=f"{unique_name}.*"))
    read = encode_call("get_table", unique_name, "orders", seqid=1)
    hits = 0
    sizes: set[int] = set()
    with RawConnection(*proxy.address) as plain, RawConnection(*proxy.address, framed=True) as framed:
        plain.call(encode_call("set_ugi", "etl", ["etl", SECRET]))
        plain.call(encode_call("getMetaConf", SECRET))
        plain.call(encode_call("get_config_value", "hive.metastore.uris", SECRET))
        for connection in (plain, framed):
            hits += reads_until_one_is_a_hit(proxy, connection, read)
            for _ in range(20):
                sizes.add(len(connection.call(read)))
                hits += 1
        plain.call(encode_call("get_all_tables", unique_name))  # learned: a miss
        drop = plain.call(encode_call("drop_partition_by_name", unique_name, "orders", "day=1", False))
        names = [f"day=2024-01-{day:02d}" for day in range(1, 29)] * 10
        empty = plain.call(encode_call("get_partitions_by_names", unique_name, "orders", names))
        plain.send(read + read + read)
        for _ in range(3):
            plain.receive()
    counted = {key: int(value) for key, value in proxy.requests().items() if value}
    assert proxy.stop() == 0
    lines = lines_in(logs)
    assert sorted(path.name for path in logs.iterdir()) in (
        ["access-0.jsonl", "access-1.jsonl"],
        ["access-0.jsonl"],
        ["access-1.jsonl"],
    )
    assert Counter((line["method"], line["outcome"], line["reason"]) for line in lines) == counted

    reads = [line for line in lines if line["method"] == "get_table"]
    assert len(reads) == hits + 3
    assert {line["object"] for line in reads} == {f"hive.{unique_name}.orders"}
    assert {line["bytes"] for line in reads} == sizes and len(sizes) == 1
    assert sum(line["outcome"] == "hit" for line in reads) >= 40
    assert {line["user"] for line in lines} == {"etl", None}
    assert len({line["client"] for line in reads}) == 2
    assert all(0 <= line["us"] < 60_000_000 for line in lines)
    about = {"object": f"hive.{unique_name}.orders", "user": "etl"}
    assert found(lines, "drop_partition_by_name", "write") == {
        **about,
        "method": "drop_partition_by_name",
        "outcome": "write",
        "reason": "",
        "bytes": len(drop),
    }
    (by_names,) = [line for line in lines if line["method"] == "get_partitions_by_names"]
    assert by_names["object"] == about["object"] and by_names["bytes"] == len(empty)
    (tables,) = [line for line in lines if line["method"] == "get_all_tables"]
    assert tables["object"] == f"hive.{unique_name}"
    assert (found(lines, "set_ugi", "relay")["object"], found(lines, "getMetaConf", "relay")["object"]) == (None, None)
    assert SECRET not in "".join(path.read_text() for path in logs.iterdir())


@pytest.mark.real
def test_relay_only_a_killed_worker_and_who_asks(
    new_proxy: Callable[..., Proxy], hms42: Metastore, tmp_path: Path
) -> None:
    """Without a cache it is the same; a worker that is killed loses what came since the last second, no more."""
    logs = tmp_path / "logs"
    proxy = new_proxy(hms42, settings=logging_to(logs, STORE="none"), prewarmed=False)
    with RawConnection(*proxy.address) as connection:
        connection.call(encode_call("set_ugi", "someone", []))
        connection.call(encode_call("get_database", "default"))
        assert wait_until(lambda: (logs / "access-0.jsonl").exists())
        assert wait_until(lambda: proxy.metric("hms_proxy_access_log_lines_total", result="written") >= 2)
        connection.call(encode_call("get_database", "default"))
        (worker,) = proxy.children()["worker"]
        os.kill(worker, signal.SIGKILL)
    assert wait_until(lambda: proxy.children()["worker"] not in ([], [worker]) and accepts(proxy.port))
    with RawConnection(*proxy.address) as connection:
        connection.call(encode_call("get_database", "default"))
    proxy.stop()
    lines = lines_in(logs)
    assert [line["method"] for line in lines][:2] == ["set_ugi", "get_database"]
    assert lines[1]["user"] == "someone" and lines[1]["object"] == "hive.default" and lines[1]["reason"] == "no_store"
    assert lines[-1]["user"] is None and 3 <= len(lines) <= 4


@pytest.mark.real
def test_what_cannot_be_written_fails_no_call(
    new_proxy: Callable[..., Proxy], hms42: Metastore, tmp_path: Path
) -> None:
    logs = tmp_path / "logs"
    logs.write_text("not a directory")
    proxy = new_proxy(hms42, settings=logging_to(logs, STORE="none"), prewarmed=False)
    with RawConnection(*proxy.address) as connection:
        for _ in range(5):
            assert connection.call(encode_call("get_database", "default"))[3] == 2
        assert wait_until(lambda: proxy.metric("hms_proxy_access_log_lines_total", result="failed") == 5)
        assert wait_until(lambda: "access log cannot be written" in proxy.log.read_text())
        logs.unlink()
        connection.call(encode_call("get_database", "default"))
        assert wait_until(lambda: proxy.metric("hms_proxy_access_log_lines_total", result="written") == 1)
    assert proxy.stop() == 0
    assert len(lines_in(logs)) == 1


@pytest.mark.real
def test_off_is_off_and_a_sample_is_a_sample(new_proxy: Callable[..., Proxy], hms42: Metastore, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    sampled = new_proxy(hms42, settings=logging_to(logs, STORE="none", ACCESS_LOG_SAMPLE="0.2"), prewarmed=False)
    with RawConnection(*sampled.address) as connection:
        for _ in range(300):
            connection.call(encode_call("getStatus"))
    sampled.stop()
    lines = lines_in(logs)
    assert 20 < len(lines) < 120 and {line["sample"] for line in lines} == {0.2}
    silent = new_proxy(hms42, settings={"STORE": "none"}, prewarmed=False)
    with RawConnection(*silent.address) as connection:
        connection.call(encode_call("getStatus"))
    time.sleep(1.2)
    assert silent.metric("hms_proxy_access_log_lines_total") == 0
    silent.stop()
    assert not list(silent.directory.rglob("*.jsonl*"))
