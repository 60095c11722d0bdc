"""Spark with its built-in Hive client: a job through the proxy, on Hive 4 compared with one straight on a metastore."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType

import pytest

from tests.proxy import Proxy
from tests.server.logged_in import realm_in
from tests.testbed import ledger
from tests.testbed.kdc import REALM
from tests.testbed.metastore import Metastore
from tests.testbed.packages import required

ROOT = Path(__file__).parents[2]
JOB_S = 400
SECURED = """\
<configuration>
<property><name>hadoop.security.authentication</name><value>kerberos</value></property>
</configuration>
"""


def run_job(
    uri: str,
    directory: Path,
    options: Mapping[str, str] = MappingProxyType({}),
    environment: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, str]:
    """`directory` may have Hadoop's configuration."""
    required("pyspark")
    directory.mkdir(parents=True, exist_ok=True)
    ledger.note(ledger.SPARK)
    finished = subprocess.run(
        [sys.executable, "-m", "tests.clients.spark_job", uri, str(directory), json.dumps(dict(options))],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT), "HADOOP_CONF_DIR": str(directory), **environment},
        capture_output=True,
        text=True,
        timeout=JOB_S,
    )
    assert finished.returncode == 0, finished.stderr[-4000:]
    results: dict[str, str] = json.loads(finished.stdout.strip().splitlines()[-1])
    return results


def outcomes(results: dict[str, str]) -> dict[str, str]:
    """Step -> ok, or the kind of failure."""
    return {step: text.partition(":")[0] for step, text in results.items()}


@pytest.mark.real
@pytest.mark.timeout(2 * JOB_S + 100)
@pytest.mark.covers("Spark's job of 60 steps", "hive42", cache="SQL", oracle="hive40")
def test_job_through_the_proxy_on_hive_4(
    new_metastore: Callable[..., Metastore], new_proxy: Callable[..., Proxy], tmp_path: Path
) -> None:
    """Equal to the job straight on Hive 4.0.0, the last release that has the methods that Spark's client calls."""
    proxy = new_proxy(new_metastore("hive42"), settings={"WORKERS": "2"})
    with ThreadPoolExecutor(1) as beside:
        running = beside.submit(run_job, new_metastore("hive40").uri, tmp_path / "straight")
        results = run_job(proxy.uri, tmp_path / "spark")
        straight = running.result()
    assert outcomes(results) == outcomes(straight)
    # Hive 4 makes a plain managed table external: Spark refuses to truncate it, and a rename does not move its files.
    failed = {step for step, text in results.items() if text != "ok"}
    assert failed == {"truncate", "read renamed"}, results

    requests = proxy.requests()
    hits = {method: count for (method, outcome, _), count in requests.items() if outcome == "hit"}
    assert hits.get("get_table", 0) > 50 and hits.get("get_database", 0) > 10, requests
    assert all(reason for (_, outcome, reason), count in requests.items() if outcome == "miss" and count), requests


@pytest.mark.real
@pytest.mark.timeout(JOB_S + 100)
@pytest.mark.covers("Spark's job of 60 steps", "hive23-silent", cache="none: relayed")
def test_job_on_hive_2_through_the_proxy(
    new_metastore: Callable[..., Metastore], new_proxy: Callable[..., Proxy], tmp_path: Path
) -> None:
    """Each step checks what it reads; straight on a metastore all of them pass, too."""
    results = run_job(new_proxy(new_metastore("hive23-silent")).uri, tmp_path / "proxied")
    assert all(text == "ok" for text in results.values()), results


@pytest.mark.real
@pytest.mark.timeout(JOB_S + 100)
@pytest.mark.covers("Spark's job of 60 steps, with Kerberos", "hive42", cache="SQL")
@pytest.mark.secures(
    client="Spark: 60 steps",
    login="Kerberos",
    metastore="Hive 4.2 without a login",
    who="the user, whom the proxy names",
)
def test_job_with_kerberos(
    new_metastore: Callable[..., Metastore], new_proxy: Callable[..., Proxy], tmp_path: Path
) -> None:
    """Spark logs in to the proxy; the metastore, which wants no login, is told the user."""
    with realm_in(tmp_path / "realm") as realm:
        proxy = new_proxy(new_metastore("hive42"), settings=realm.environment("sasl"))
        java = f"-Djava.security.krb5.conf={realm.kdc.environment['KRB5_CONFIG']}"
        options = {
            "spark.hadoop.hive.metastore.sasl.enabled": "true",
            "spark.hadoop.hive.metastore.kerberos.principal": f"hive/_HOST@{REALM}",
            "spark.kerberos.keytab": str(realm.users["alice"]),
            "spark.kerberos.principal": f"alice@{REALM}",
            "spark.driver.extraJavaOptions": java,
        }
        (tmp_path / "spark").mkdir()
        (tmp_path / "spark" / "core-site.xml").write_text(SECURED)  # Spark logs in before it knows its own settings
        results = run_job(f"thrift://localhost:{proxy.port}", tmp_path / "spark", options)
        assert {step for step, text in results.items() if text != "ok"} == {"truncate", "read renamed"}, results
        assert proxy.metric("hms_proxy_handshakes_total", transport="sasl", result="failed") == 0, proxy.log_tail()
        assert proxy.metric("hms_proxy_handshakes_total", transport="sasl", result="done") >= 1
        hits = sum(n for (method, how, _), n in proxy.requests().items() if (method, how) == ("get_table", "hit"))
        assert hits > 50
