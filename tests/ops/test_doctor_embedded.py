"""The doctor and the embedded metastore: its file before and after its first start, and what is no such file."""

from __future__ import annotations

from pathlib import Path

import pytest

from hms_cache_proxy.config import load
from hms_cache_proxy.doctor import diagnose, print_diagnosis
from tests.ops.test_doctor import doctor, lines
from tests.testbed.bed import Bed


def test_before_the_first_start(tmp_path: Path) -> None:
    code, answer = doctor(tmp_path, "", EMBEDDED="true")
    assert code == 0 and answer["grant_script"] == ""
    assert any(
        "there is no such file" in line and "has run for the first time" in line for line in lines(answer, "note")
    )


def test_its_file(tmp_path: Path, bed: Bed) -> None:
    metastore = bed.shared("embedded")
    assert metastore.database is not None
    code, answer = doctor(tmp_path, metastore.uri, metastore.database.reader_url, CACHE_MAX_BYTES="64MiB")
    assert code == 0 and lines(answer, "error") == lines(answer, "warning") == []
    told = "\n".join(lines(answer, "ok"))
    for words in ("SQLite 3.", "metastore schema 4.2.0", "tables it needs, and write none", "Hive 4.2.0"):
        assert words in told, told


def test_another_file(tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    other.write_text("no database")
    code, answer = doctor(tmp_path, "thrift://127.0.0.1:1", f"sqlite:///{other}")
    assert code == 1
    assert any("file is not a database" in line and "-shm" in line for line in lines(answer, "error"))


def test_for_people_without_a_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = {"HMS_CACHE_PROXY_EMBEDDED": "true", "HMS_CACHE_PROXY_DATA_DIR": str(tmp_path / "data")}
    print_diagnosis(diagnose(load(None, settings)))
    printed = capsys.readouterr().out
    assert "no errors" in printed and "To create the account" not in printed
