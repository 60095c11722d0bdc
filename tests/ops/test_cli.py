"""The command line: exit codes, one line for an error, JSON, and what the commands say of a real proxy."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from hms_cache_proxy.cli.main import main
from tests.proxy import Proxy
from tests.testbed.metastore import Metastore
from tests.testbed.processes import SOON_S

NewProxy = Callable[..., Proxy]


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """The command line in this process: an interpreter's start for each line of a table takes too long."""

    def call(*arguments: str, **environment: str) -> Done:
        for key in list(os.environ):
            if key.startswith("HMS_CACHE_PROXY_"):
                monkeypatch.delenv(key)
        for key, value in environment.items():
            monkeypatch.setenv(key, value)
        monkeypatch.setattr(sys, "argv", ["hms-cache-proxy", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return Done(int(ended.value.code or 0), *capsys.readouterr())

    return call


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("HMS_CACHE_PROXY_")}
    command = [sys.executable, "-m", "hms_cache_proxy", *arguments]
    return subprocess.run(
        command, env={**clean, **environment}, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL
    )


def one_line(done: Done | subprocess.CompletedProcess[str]) -> str:
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("hms-cache-proxy: "), done.stderr
    assert done.stdout == ""
    return done.stderr.strip()


def test_the_console_script_is_installed() -> None:
    script = Path(sys.executable).with_name("hms-cache-proxy")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "0.1.0\n")


def test_completion() -> None:
    """As the lines of docs/operations.md have a shell ask for it."""
    script = Path(sys.executable).with_name("hms-cache-proxy")
    for words, found in (("hms-cache-proxy stat", "status"), ("hms-cache-proxy serve --admin", "--admin-listen")):
        asked = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" ")), "_HMS_CACHE_PROXY_COMPLETE": "bash_complete"}
        done = subprocess.run([script], env={**os.environ, **asked}, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout) == (0, f"plain,{found}\n"), done.stderr


@pytest.mark.parametrize("command", ["", "serve", "status", "doctor", "flush", "check-config", "metastore"])
def test_help(here: Callable[..., Done], command: str) -> None:
    done = here(*command.split(), "--help")
    assert done.returncode == 0
    assert "Usage:" in done.stdout


@pytest.mark.parametrize("command", ["serve", "doctor", "check-config"])
def test_without_an_upstream(here: Callable[..., Done], command: str) -> None:
    done = here(command)
    assert done.returncode == 2
    line = one_line(done)
    assert "--upstream thrift://HOST:PORT" in line and "HMS_CACHE_PROXY_UPSTREAM" in line
    assert "--embedded" in line


def test_an_upstream_and_an_embedded_metastore(here: Callable[..., Done]) -> None:
    done = here("serve", "--embedded", "--upstream", "thrift://h:1")
    assert done.returncode == 2
    assert "embedded metastore is the upstream" in one_line(done)


@pytest.mark.parametrize(
    ("arguments", "environment", "code", "words"),
    [
        (["serve", "--workers", "many", "--upstream", "thrift://h:1"], {}, 2, "--workers: workers: input should be"),
        (["serve", "--store", "redis"], {}, 2, "--store: store: input should be 'auto', 'sql', 'thrift' or 'none'"),
        (["check-config", "--admin-listen", "here"], {}, 2, "--admin-listen: admin.listen: 'here' is not HOST:PORT"),
        (["serve"], {"HMS_CACHE_PROXY_UPSTREM": "x"}, 2, "did you mean HMS_CACHE_PROXY_UPSTREAM?"),
        (["serve", "--config", "/nonexistent.toml"], {}, 2, "/nonexistent.toml: No such file or directory"),
        (["check-config"], {"HMS_CACHE_PROXY_CONFIG": "/nonexistent.toml"}, 2, "/nonexistent.toml: No such file"),
        (["status", "--url", "http://127.0.0.1:1"], {}, 1, "no answer from a proxy"),
        (["status"], {"HMS_CACHE_PROXY_URL": "http://127.0.0.1:1"}, 1, "http://127.0.0.1:1/status: no answer"),
        (
            ["flush", "--all", "--url", "http://127.0.0.1:1"],
            {},
            1,
            "is this the proxy's `admin.listen` address (--url or",
        ),
        (["status", "--url", "127.0.0.1:9084"], {}, 1, "'127.0.0.1:9084' is not http://HOST:PORT"),
        (
            ["status", "--url", "http://[::1:9084"],
            {},
            1,
            "'http://[::1:9084' is not http://HOST:PORT (Invalid IPv6 URL)",
        ),
        (
            ["status", "--url", "http://127.0.0.1:90x4"],
            {},
            1,
            "90x4/status: no answer from a proxy: nonnumeric port: '90x4'",
        ),
        (["doctor", "--grant-script", "--upstream", "thrift://h:1"], {}, 2, "store_url: is not set; --grant-script"),
        (["flush", "--all"], {"HMS_CACHE_PROXY_ADMIN_TOKEN_FILE": "/nonexistent"}, 2, "admin.token_file: cannot read"),
    ],
)
def test_errors_are_one_line(
    here: Callable[..., Done], arguments: list[str], environment: dict[str, str], code: int, words: str
) -> None:
    done = here(*arguments, **environment)
    assert done.returncode == code
    assert words in one_line(done)


@pytest.mark.parametrize("command", [["status"], ["status", "--json"], ["flush", "--all"]])
@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("SSH-2.0-OpenSSH_9.2\r\n", "no answer from a proxy: SSH-2.0-OpenSSH_9.2"),
        ("HTTP/1.0 200 OK\r\n\r\n<html>", "no answer from a proxy: Expecting value"),
        ("HTTP/1.0 200 OK\r\n\r\n[1]", "this is not a proxy's answer; is this the proxy's `"),
        ('HTTP/1.0 200 OK\r\n\r\n{"status": "green"}', "this is not a proxy's answer; is this the proxy's `"),
    ],
)
def test_what_answers_is_no_proxy(here: Callable[..., Done], command: list[str], said: str, words: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        other.settimeout(SOON_S)

        def answer() -> None:
            taken, _ = other.accept()
            with taken:
                taken.recv(1 << 16)
                taken.sendall(said.encode())

        answering = threading.Thread(target=answer)
        answering.start()
        done = here(*command, "--url", f"http://127.0.0.1:{other.getsockname()[1]}")
        answering.join()
    assert done.returncode == 1
    assert words in one_line(done)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--upstream", "thrift://h:1", "--data-dir", "/dev/null"), 1, "data directory /dev/null: File"),
        (("--upstream", "thrift://h:1", "--listen", "192.0.2.1:9083"), 2, "listen: cannot listen on 192.0.2.1:9083"),
    ],
)
def test_errors_of_the_supervisor_are_one_line(tmp_path: Path, arguments: list[str], code: int, words: str) -> None:
    done = run("serve", *arguments, HMS_CACHE_PROXY_DATA_DIR=str(tmp_path / "data"))
    assert done.returncode == code
    assert words in one_line(done)


def test_a_port_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        done = run("serve", "--upstream", "thrift://h:1", "--listen", where, "--data-dir", str(tmp_path / "data"))
    assert done.returncode == 2
    line = one_line(done)
    assert f"listen: cannot listen on {where}: the port is in use by process {os.getpid()} (" in line
    assert "set listen to another" in line


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    """As the account nobody, because root may write everywhere; or as who runs the tests."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o555)
    imports = "import os; from hms_cache_proxy.processes.data_directory import DataDir\n"
    code = f"{imports}os.geteuid() or os.setresuid(65534, 65534, 65534); DataDir({str(closed / 'data')!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "Permission denied; data_dir (--data-dir) must be a directory that the account with user id " in done.stderr


def test_a_directory_that_the_doctor_may_not_look_at(tmp_path: Path) -> None:
    """As the account nobody, because root may read everywhere; or as who runs the tests."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    code = f"""
import os
from hms_cache_proxy.config import load
from hms_cache_proxy.doctor import machine

config = load(cli={{"data_dir": {str(closed / "proxy" / "data")!r}}})
os.geteuid() or os.setresuid(65534, 65534, 65534)
print(next(machine._directory(config)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "data cannot be looked up: Permission denied" in done.stdout and "ERROR" in done.stdout, done.stderr


def test_a_directory_whose_path_is_too_long_for_sockets(tmp_path: Path) -> None:
    name = "d" * 100
    done = run("serve", "--upstream", "thrift://127.0.0.1:1", "--data-dir", str(tmp_path / name))
    assert "bytes too long for the sockets in it" in one_line(done)
    assert done.returncode == 1 and not (tmp_path / name).exists()


def test_a_missing_driver_ends_the_start(tmp_path: Path) -> None:
    without = "import sys; sys.modules['pymysql'] = None; from hms_cache_proxy.cli.main import main; main()"
    given = {"UPSTREAM": "thrift://h:1", "STORE_URL": "mysql://u:secret@h/m", "DATA_DIR": str(tmp_path / "data")}
    given |= dict.fromkeys(("LISTEN", "HTTP", "ADMIN_LISTEN"), "127.0.0.1:0")
    clean = {key: value for key, value in os.environ.items() if not key.startswith("HMS_CACHE_PROXY_")}
    done = subprocess.run(
        [sys.executable, "-c", without, "serve"],
        env={**clean, **{f"HMS_CACHE_PROXY_{key}": value for key, value in given.items()}},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert "store_url: needs the driver for MySQL: pip install 'hms-cache-proxy[mysql]'" in one_line(done)
    assert "secret" not in done.stderr


def test_the_script_for_an_account_that_does_not_exist_yet(here: Callable[..., Done]) -> None:
    url = "postgresql://the%20reader@127.0.0.1:1/hive"
    done = here("doctor", "--grant-script", "--upstream", "thrift://h:1", "--store-url", url)
    assert (done.returncode, done.stderr) == (0, "")
    first, second, *_ = done.stdout.splitlines()
    assert first == "CREATE ROLE \"the reader\" LOGIN PASSWORD '...';"
    assert second == 'GRANT CONNECT ON DATABASE "hive" TO "the reader";'


@pytest.mark.parametrize(
    "arguments",
    [
        ["serve", "extra"],
        ["unknown"],
        ["flush"],
        ["flush", "--all", "--db", "x"],
        ["doctor", "--grant-script", "--json"],
    ],
)
def test_wrong_usage(here: Callable[..., Done], arguments: list[str]) -> None:
    done = here(*arguments)
    assert done.returncode == 2
    assert "Error: " in done.stderr


def test_check_config_masks_secrets(here: Callable[..., Done], tmp_path: Path) -> None:
    file = tmp_path / "proxy.toml"
    file.write_text("upstream = ['thrift://h:1']\nstore_url = 'postgresql://u:geheim@h/d'\n[admin]\ntoken = 'hush'\n")
    shown = here("check-config", "--config", str(file), "--json")
    assert shown.returncode == 0
    values = json.loads(shown.stdout)
    assert values["store_url"] == "postgresql://u:***@h/d"
    assert values["admin"]["token"] == "***"
    options = ("--workers", "3", "--store", "sql", "--admin-listen", "127.0.0.1:1234")
    lines = here("check-config", "--config", str(file), *options).stdout
    assert "workers = 3\n" in lines and 'store = "sql"\n' in lines and 'admin.listen = "127.0.0.1:1234"\n' in lines
    assert 'upstream = ["thrift://h:1"]\n' in lines
    assert "geheim" not in shown.stdout + lines and "hush" not in shown.stdout + lines


@pytest.mark.real
def test_status_and_flush_of_a_running_proxy(new_proxy: NewProxy, hms42: Metastore) -> None:
    proxy = new_proxy(hms42)
    url = f"http://127.0.0.1:{proxy.http_port}"
    table = run("status", "--url", url)
    assert table.returncode == 0, table.stderr
    for words in ("ready", hms42.uri, "version 4.2.0, reachable", "done,", "1 of 1, 0 restarts", "database"):
        assert words in table.stdout, table.stdout
    status = run("status", "--json", HMS_CACHE_PROXY_URL=url)
    assert status.returncode == 0
    assert json.loads(status.stdout)["upstream"]["version"] == "4.2.0"
    admin = f"http://127.0.0.1:{proxy.admin_port}"
    everything = run("flush", "--all", "--json", "--url", admin)
    assert everything.returncode == 0, everything.stderr
    assert json.loads(everything.stdout)["done"] is True
    absent = run("flush", "--db", "nowhere", "--table", "nothing", HMS_CACHE_PROXY_ADMIN_URL=admin)
    assert (absent.returncode, absent.stdout) == (0, "3 targets: reloaded\n")
