"""The doctor before real servers: what it finds, what it advises, its exit code, and that its script suffices."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psycopg2
import pytest
from sqlalchemy.engine import make_url

from hms_cache_proxy.config import load
from hms_cache_proxy.doctor import diagnose
from tests.testbed.client import MetastoreClient
from tests.testbed.metastore import Metastore
from tests.testbed.objects import create_database

pytestmark = pytest.mark.real


def doctor(tmp_path: Path, upstream: str, store_url: str = "", **environment: str) -> tuple[int, dict[str, object]]:
    """Exit code and the JSON answer of the command, without starting an interpreter."""
    settings = {"UPSTREAM": upstream, "STORE_URL": store_url, "DATA_DIR": str(tmp_path / "data"), **environment}
    diagnosis = diagnose(load(None, {f"HMS_CACHE_PROXY_{key}": value for key, value in settings.items()}))
    assert not (tmp_path / "data").exists()  # it changes nothing
    return int(diagnosis.bad), diagnosis.as_dict()


def lines(answer: dict[str, object], level: str) -> list[str]:
    findings = answer["findings"]
    assert isinstance(findings, list)
    return [f"{f['subject']}: {f['text']} > {f['advice']}" for f in findings if f["level"] == level]


def urls(metastore: Metastore) -> tuple[str, str]:
    assert metastore.database is not None
    return metastore.database.reader_url, metastore.database.store_url


def test_all_is_well(tmp_path: Path, hms42: Metastore, unique_name: str) -> None:
    reader, _ = urls(hms42)
    with MetastoreClient(hms42.host, hms42.port) as client:
        create_database(client, unique_name)  # something in the log
    code, answer = doctor(tmp_path, hms42.uri, reader, LIMITS_MAX_CONNECTIONS="100", CACHE_MAX_BYTES="1MiB")
    assert code == 0 and answer["ok"] is True
    assert lines(answer, "error") == lines(answer, "warning") == []
    told = "\n".join(lines(answer, "ok"))
    for words in (
        "answers; Hive 4.2.0, database ",
        "newest event ",
        "the log is kept for 1d",
        "writes its notification log in the transaction of each change",
        "gives all users the same answers",
        "PostgreSQL 1",
        "metastore schema 4.2.0",
        "tables it needs, and write none",
        "the notification log reaches back",
        "GiB free",
        "usable cores",
    ):
        assert words in told, told


def test_an_account_that_may_write(tmp_path: Path, hms42: Metastore) -> None:
    _, owner = urls(hms42)
    code, answer = doctor(tmp_path, hms42.uri, owner)
    assert code == 0
    assert any("the account may write: " in line and "the script below" in line for line in lines(answer, "warning"))
    assert 'CREATE ROLE "hms_reader" LOGIN' in str(answer["grant_script"])


def test_an_account_that_may_not_read_and_the_script_that_helps(tmp_path: Path, hms42: Metastore) -> None:
    _, owner = urls(hms42)
    url = make_url(owner)
    connection = psycopg2.connect(
        host=url.host, port=url.port, user=url.username, password=url.password, dbname=url.database
    )
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute("DROP ROLE IF EXISTS doctors_patient")
        cursor.execute("CREATE ROLE doctors_patient LOGIN PASSWORD 'p'")
        stranger = url.set(username="doctors_patient", password="p").render_as_string(hide_password=False)
        code, answer = doctor(tmp_path, hms42.uri, stranger)
        assert code == 1
        assert any("the account may not read: " in line for line in lines(answer, "error")), answer
        cursor.execute(str(answer["grant_script"]))
        code, answer = doctor(tmp_path, hms42.uri, stranger)
        assert code == 0, lines(answer, "error")
        cursor.execute("DROP OWNED BY doctors_patient; DROP ROLE doctors_patient")
    connection.close()


def test_a_metastore_that_cannot_be_reached(tmp_path: Path, hms42: Metastore) -> None:
    reader, _ = urls(hms42)
    code, answer = doctor(tmp_path, "thrift://127.0.0.1:1", reader)
    assert code == 1
    assert any("thrift://127.0.0.1:1: cannot be queried: " in line for line in lines(answer, "error"))
    code, answer = doctor(tmp_path, f"thrift://127.0.0.1:1,{hms42.uri}", reader)
    assert code == 0
    assert any("thrift://127.0.0.1:1: cannot be queried: " in line for line in lines(answer, "warning"))


def test_the_database_of_another_metastore_that_writes_no_log(
    tmp_path: Path, hms42: Metastore, hms40: Metastore
) -> None:
    reader, _ = urls(hms42)
    code, answer = doctor(tmp_path, hms40.uri, reader)
    assert code == 1
    errors = "\n".join(lines(answer, "error"))
    assert ", the cache is read from " in errors and "at the same metastore" in errors
    assert "writes no notification log" in errors
    code, answer = doctor(tmp_path, f"{hms40.uri},{hms42.uri}")
    assert any("use 2 different databases" in line for line in lines(answer, "error"))


def test_a_metastore_that_filters_and_keeps_its_log_to_itself(
    tmp_path: Path, new_metastore: Callable[..., Metastore]
) -> None:
    closed = {"metastore.event.db.notification.api.auth": "true", "metastore.filter.hook": "org.example.Hook"}
    strict = new_metastore("hive42", settings=closed)
    reader, _ = urls(strict)
    code, answer = doctor(tmp_path, strict.uri)
    errors = "\n".join(lines(answer, "error"))
    assert code == 1
    assert "does not let this proxy read its notification log" in errors and "set store_url" in errors
    assert "hive.metastore.filter.hook = org.example.Hook" in errors and "set authorization = none" in errors
    code, answer = doctor(tmp_path, strict.uri, reader, AUTHORIZATION="none")
    assert code == 0, lines(answer, "error")
    notes = "\n".join(lines(answer, "note"))
    assert "this is not needed: the log is read from the database" in notes
    assert "authorization = none declares it harmless" in notes


def test_hive_23(tmp_path: Path, hms23: Metastore) -> None:
    _, answer = doctor(tmp_path, hms23.uri)
    assert any("Hive 2.3 (it says 3.0), database without an id" in line for line in lines(answer, "ok"))
    assert any("store_url is not set" in line for line in lines(answer, "note"))
    assert answer["grant_script"] == ""  # which database it has is not known


def test_a_database_that_cannot_be_reached(tmp_path: Path, hms42: Metastore) -> None:
    code, answer = doctor(tmp_path, hms42.uri, "postgresql://u:geheim@127.0.0.1:1/hive")
    assert code == 1
    assert any(line.startswith("database: ") and "127.0.0.1" in line for line in lines(answer, "error")), answer
    assert "geheim" not in json.dumps(answer)
    assert 'ON DATABASE "hive" TO "u"' in str(answer["grant_script"])


def test_the_command(tmp_path: Path, hms42: Metastore) -> None:
    file = tmp_path / "file"
    file.touch()
    reader, _ = urls(hms42)
    arguments = ["--upstream", hms42.uri, "--store-url", reader, "--data-dir", str(file / "data")]
    command = [sys.executable, "-m", "hms_cache_proxy", "doctor", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (1, "")
    assert "GRANT SELECT ON" not in done.stdout  # the account is as it should be
    assert done.stdout.endswith("\n1 error, no warnings\n")
    assert f" ERROR   {file} cannot be written to" in done.stdout
    assert "\x1b" not in done.stdout
    answer = json.loads(subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=120).stdout)
    assert set(answer) == {"ok", "findings", "grant_script"} and answer["ok"] is False
