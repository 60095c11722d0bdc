"""What the doctor says about a metastore's database in MariaDB, and its script for an account there."""

from __future__ import annotations

import json
from pathlib import Path

from sqlalchemy.engine import make_url

from tests.ops.test_doctor import doctor, lines
from tests.testbed.metastore import Metastore


def test_a_reader(tmp_path: Path, hms42_mariadb: Metastore) -> None:
    assert hms42_mariadb.database is not None
    code, answer = doctor(tmp_path, hms42_mariadb.uri, hms42_mariadb.database.reader_url)
    assert code == 0, answer
    told = "\n".join(lines(answer, "ok"))
    for words in ("MariaDB 1", "metastore schema 4.2.0", "tables it needs, and write none"):
        assert words in told, told
    assert not lines(answer, "warning"), answer


def test_an_account_that_may_write(tmp_path: Path, hms42_mariadb: Metastore) -> None:
    assert hms42_mariadb.database is not None
    code, answer = doctor(tmp_path, hms42_mariadb.uri, hms42_mariadb.database.store_url)
    assert code == 0
    assert any("the account may write: " in line for line in lines(answer, "warning")), answer
    assert "CREATE USER 'hms_reader'@'%' IDENTIFIED BY" in str(answer["grant_script"])


def test_an_account_that_may_not_read_and_the_script_that_helps(tmp_path: Path, hms42_mariadb: Metastore) -> None:
    database = hms42_mariadb.database
    assert database is not None
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE OR REPLACE USER 'doctor''s patient'@'%' IDENTIFIED BY 'geheim'")
        cursor.execute(f"GRANT SELECT ON `{database.name}`.`VERSION` TO 'doctor''s patient'@'%'")
        stranger = make_url(database.store_url).set(username="doctor's patient", password="geheim")
        url = stranger.render_as_string(hide_password=False)
        code, answer = doctor(tmp_path, hms42_mariadb.uri, url)
        assert code == 1
        assert any("the account may not read: " in line for line in lines(answer, "error")), answer
        assert "geheim" not in json.dumps(answer)
        cursor.execute(str(answer["grant_script"]))
        while cursor.nextset():
            pass
        code, answer = doctor(tmp_path, hms42_mariadb.uri, url)
        assert code == 0, lines(answer, "error")
        cursor.execute("DROP USER 'doctor''s patient'@'%'")


def test_a_replica(tmp_path: Path, hms42_mariadb: Metastore) -> None:
    database = hms42_mariadb.database
    assert database is not None
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET GLOBAL read_only = 1")
        try:
            code, answer = doctor(tmp_path, hms42_mariadb.uri, database.reader_url)
        finally:
            cursor.execute("SET GLOBAL read_only = 0")
    assert code == 1
    assert any("is a read-only replica" in line for line in lines(answer, "error")), answer


def test_a_database_that_cannot_be_reached(tmp_path: Path, hms42_mariadb: Metastore) -> None:
    code, answer = doctor(tmp_path, hms42_mariadb.uri, "mysql+pymysql://u:geheim@127.0.0.1:1/hive")
    assert code == 1
    assert any("127.0.0.1:1" in line for line in lines(answer, "error")), answer
    assert "CREATE USER" in str(answer["grant_script"])
    assert "geheim" not in json.dumps(answer)
