"""Which Spark is used, and what executors are sent: no Spark is started."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from hms_cache_proxy.cli.main import commands
from hms_cache_proxy.errors import ConfigError
from hms_cache_proxy.pipeline import launch
from tests.pipeline.cluster import EXECUTORS

PAGE = Path(__file__).parents[2] / "docs" / "pipeline.md"
EXECUTOR = """
import sys
from importlib.metadata import packages_distributions
given = set(sys.argv[1:])
missing = {name for name, found in packages_distributions().items() if not given.intersection(found)}
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in missing:
            raise ModuleNotFoundError(f"No module named {name!r}")
sys.meta_path.insert(0, Missing())
import hms_cache_proxy.pipeline.decoded, hms_cache_proxy.pipeline.tasks, pyarrow.parquet, psycopg2
"""
"""Imports what tasks import, where only the given packages are installed."""

VARIABLES = ("MASTER", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", "SPARK_REMOTE", "SPARK_API_MODE")


@pytest.fixture(autouse=True)
def nothing_configured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An environment without Spark's variables; returns the directory of its settings."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("master", "options", "local"),
    [
        (None, {}, True),
        ("local[2]", {}, True),
        ("yarn", {}, False),
        (None, {"spark.master": "k8s://https://example:6443"}, False),
        (None, {"spark.master": "local[4]"}, True),
        ("local", {"spark.master": "yarn"}, True),
    ],
)
def test_a_master_that_is_asked_for(master: str | None, options: dict[str, str], local: bool) -> None:
    assert launch.is_local(master, options) == local


@pytest.mark.parametrize(
    "line", ["spark.master yarn", "spark.master=spark://a:7077", " spark.master\t:  yarn", "a b\nspark.master   yarn"]
)
def test_a_master_in_the_file_of_defaults(nothing_configured: Path, line: str) -> None:
    (nothing_configured / "spark-defaults.conf").write_text(f"# spark.master local\n{line}\n")
    assert not launch.is_local(None, {}) and launch.is_local("local[1]", {})


def test_other_lines_of_the_file_of_defaults(nothing_configured: Path) -> None:
    (nothing_configured / "spark-defaults.conf").write_text("# spark.master yarn\nspark.master.rest.enabled false\n")
    assert launch.is_local(None, {})


@pytest.mark.parametrize("variable", ["MASTER", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT"])
def test_a_master_in_the_environment(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "1")
    assert not launch.is_local(None, {})


@pytest.mark.parametrize(
    ("master", "options", "variable"),
    [
        ("sc://example", {}, None),
        (None, {"spark.remote": "sc://example"}, None),
        (None, {"spark.api.mode": "connect"}, None),
        (None, {}, ("SPARK_REMOTE", "sc://example")),
        (None, {}, ("SPARK_API_MODE", "connect")),
    ],
)
def test_spark_connect_is_refused(
    monkeypatch: pytest.MonkeyPatch, master: str | None, options: dict[str, str], variable: tuple[str, str] | None
) -> None:
    if variable is not None:
        monkeypatch.setenv(*variable)
    with pytest.raises(ConfigError, match="Spark Connect is not supported"):
        launch.refuse_connect(master, options)


def test_what_executors_need_is_documented() -> None:
    needed = ("hms-cache-proxy", "typing_extensions", *EXECUTORS.requirements)
    ended = subprocess.run([sys.executable, "-c", EXECUTOR, *needed], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    (sentence,) = re.findall(r"must be installed in the executors' Python:(.*?)\.", PAGE.read_text(), re.DOTALL)
    assert {*EXECUTORS.requirements, "PyMySQL"} == set(re.findall(r"`(.+?)`", sentence))


def test_the_zip_is_the_package(tmp_path: Path) -> None:
    """The commands run from the zip, with nothing of this package elsewhere; so does the file for spark-submit."""
    ended = CliRunner().invoke(commands, ["spark-package", str(tmp_path / "new")])
    assert ended.exit_code == 0, ended.output
    zipped, job = ended.output.split()
    script = f"""
import runpy, sys
sys.meta_path = [finder for finder in sys.meta_path if "editable" not in repr(finder)]
sys.path = [{zipped!r}] + [path for path in sys.path if {str(Path.cwd())!r} != path]
sys.argv = ["job", "snapshot", "publish", "--help"]
import hms_cache_proxy.pipeline.query, hms_cache_proxy.pipeline.tasks, hms_cache_proxy.wire.spec as spec
assert all({zipped!r} in module.__file__ for name, module in sys.modules.items() if name.startswith("hms_cache_proxy"))
assert spec.struct("Partition")
runpy.run_path({job!r}, run_name="__main__")
"""
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path)
    assert said.returncode == 0 and "--keep K" in said.stdout, said.stderr


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ended = CliRunner().invoke(commands, ["spark-package", str(tmp_path / "file")])
    assert isinstance(ended.exception, ConfigError) and "cannot write: " in str(ended.exception)
