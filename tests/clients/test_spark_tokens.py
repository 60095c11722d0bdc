"""Spark's job with delegation tokens that Spark itself takes through a proxy, which acts for the user at Hive 4.2 with
Kerberos."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.clients.test_spark import JOB_S, ROOT, SECURED, run_job
from tests.testbed.bed import Bed
from tests.testbed.kdc import REALM
from tests.testbed.packages import required
from tests.upstream.secured_hive import Place, place_in

REFUSED_BY_SPARK = {"truncate", "read renamed"}  # as in test_spark: Hive 4 makes a plain managed table external
NOT_THERE = "FILE:/nonexistent/tickets"
JOBS_CALLS = ("create_database", "create_table", "add_partitions", "alter_table", "drop_table", "drop_database")
GET_TABLE_HIT = ("get_table", "hit")


@pytest.fixture(scope="module")
def place(bed: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with place_in(tmp_path_factory.mktemp("tokens"), bed, "hive42", "alice", {}) as place:
        place.proxy.wait_prewarmed()
        yield place


def uri_of(place: Place) -> str:
    """The proxy's, by the name that is in its principal."""
    return f"thrift://localhost:{place.proxy.port}"


def options(place: Place) -> dict[str, str]:
    """Spark's settings, without a keytab."""
    java = f"-Djava.security.krb5.conf={place.realm.kdc.environment['KRB5_CONFIG']}"
    return {
        "spark.hadoop.hive.metastore.sasl.enabled": "true",
        "spark.hadoop.hive.metastore.kerberos.principal": f"hive/_HOST@{REALM}",
        "spark.driver.extraJavaOptions": java,
        "spark.executor.extraJavaOptions": java,
    }


def tickets_of(place: Place, user: str, directory: Path) -> dict[str, str]:
    """An environment with the user's ticket."""
    environment = {"KRB5CCNAME": f"FILE:{directory / 'tickets'}"}
    place.realm.kdc.log_in(user, place.realm.users[user], environment)
    return environment


def conf_in(directory: Path) -> Path:
    """A directory with Hadoop's configuration: Spark logs in before it knows its own settings."""
    directory.mkdir()
    (directory / "core-site.xml").write_text(SECURED)
    return directory


def take_token(place: Place, directory: Path, environment: Mapping[str, str]) -> Path:
    """The file that Spark's providers have written for the user of the ticket."""
    required("pyspark")
    file = directory / "tokens"
    ran = subprocess.run(
        [sys.executable, "-m", "tests.clients.spark_token", uri_of(place), str(file), json.dumps(options(place))],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT), "HADOOP_CONF_DIR": str(directory), **environment},
        capture_output=True,
        text=True,
        timeout=JOB_S,
    )
    assert ran.returncode == 0, ran.stderr[-4000:] + place.proxy.log_tail()
    assert json.loads(ran.stdout.splitlines()[-1]) == [["", "HIVE_DELEGATION_TOKEN"]]
    return file


@dataclass(frozen=True)
class Watched:
    """What the proxy and Hive have said since this was made, and what the proxy has counted."""

    place: Place
    proxy_bytes: int
    hive_bytes: int
    hits: float

    @classmethod
    def since_now(cls, place: Place) -> Watched:
        return cls(place, place.proxy.log.stat().st_size, place.hive.log.stat().st_size, _hits(place))

    def check(self, results: Mapping[str, str]) -> None:
        """All steps as with a ticket, each login of alice by a token that she got herself, hits, and no other user than
        alice in Hive's audit of the job's calls."""
        assert {step for step, text in results.items() if text != "ok"} == REFUSED_BY_SPARK, results
        lines = _since(self.place.proxy.log, self.proxy_bytes)
        by_token = [line for line in lines if " login " in line and "mechanism=DIGEST-MD5 " in line]
        assert by_token and all("user=alice " in line and "real_user=None " in f"{line} " for line in by_token)
        assert not [line for line in lines if "login refused" in line]
        audit = [line for line in _since(self.place.hive.log, self.hive_bytes) if "cmd=" in line]
        for command in JOBS_CALLS:
            assert [line for line in audit if f"cmd={command}" in line and "ugi=alice\t" in line], (command, audit)
        others = {line.partition("ugi=")[2].split("\t")[0] for line in audit} - {"alice"}
        assert others <= {f"proxy/localhost@{REALM}", f"hive/localhost@{REALM}"}, others
        theirs = [line for line in audit if "ugi=alice\t" not in line]
        assert not [line for line in theirs if any(f"cmd={command}" in line for command in JOBS_CALLS)], theirs
        assert _hits(self.place) - self.hits > 50


def _hits(place: Place) -> float:
    return sum(number for (method, how, _), number in place.proxy.requests().items() if (method, how) == GET_TABLE_HIT)


def _since(log: Path, size: int) -> list[str]:
    return log.read_bytes()[size:].decode().splitlines()


@pytest.mark.real
@pytest.mark.timeout(3 * JOB_S)
@pytest.mark.covers("Spark's job of 60 steps in a local cluster, with a delegation token", "hive42", cache="SQL")
@pytest.mark.secures(
    client="Spark in a local cluster: 60 steps",
    login="token",
    metastore="Hive 4.2 with Kerberos",
    who="the user, as Hive's audit says",
)
def test_job_in_a_local_cluster(place: Place, tmp_path: Path) -> None:
    """As in cluster mode: the token is taken with alice's ticket beforehand, and the job has nothing but the token."""
    directory = conf_in(tmp_path / "spark")
    file = take_token(place, directory, tickets_of(place, "alice", tmp_path))
    watched = Watched.since_now(place)
    cluster = {"spark.master": "local-cluster[1,2,512]", "spark.executor.memory": "512m"}
    only_token = {"HADOOP_TOKEN_FILE_LOCATION": str(file), "KRB5CCNAME": NOT_THERE}
    results = run_job(uri_of(place), directory, {**options(place), **cluster}, only_token)
    watched.check(results)
