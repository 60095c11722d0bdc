"""Decides which Spark runs the tasks: the one that the options name, the one that is configured, or this process.

Job: find out, before the JVM starts, whether a master is configured; refuse Spark Connect; choose the tasks' Python.
Spark's own order applies: --master, --conf, PYSPARK_SUBMIT_ARGS, spark-defaults.conf, MASTER; without any of them,
local[*]. Under spark-submit the JVM is already running and knows its master.

Must not know: what is run.

Owner: the driver's process.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from hms_cache_proxy.errors import ConfigError

MASTER: Final = "spark.master"
LOCAL: Final = "local[*]"
PYTHON: Final = "spark.pyspark.python"

_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
_CONNECT: Final = (
    "Spark Connect is not supported ({}): its client cannot run this package's tasks. Use --master, or spark-submit"
)
_DEFAULT_MASTER: Final = re.compile(r"^\s*spark\.master(?:\s*[=:]\s*|\s+)\S", re.MULTILINE)


def submitted() -> bool:
    """Whether spark-submit has started this process."""
    return _SUBMITTED in os.environ


def refuse_connect(master: str | None, options: Mapping[str, str]) -> None:
    """Raise ConfigError if these options or the environment ask for Spark Connect."""
    wanted = {
        f"--master {master}": (master or "").startswith("sc://"),
        "--conf spark.remote": "spark.remote" in options,
        "--conf spark.api.mode=connect": options.get("spark.api.mode", "").lower() == "connect",
        "SPARK_REMOTE is set": "SPARK_REMOTE" in os.environ,
        "SPARK_API_MODE=connect": os.environ.get("SPARK_API_MODE", "").lower() == "connect",
    }
    for what, is_wanted in wanted.items():
        if is_wanted:
            raise ConfigError(_CONNECT.format(what))


def is_local(master: str | None, options: Mapping[str, str]) -> bool:
    """Whether the tasks will run in a JVM that this process starts."""
    if submitted():
        return False
    wanted = master or options.get(MASTER)
    if wanted is not None:
        return wanted.startswith("local")
    return not ("MASTER" in os.environ or "PYSPARK_SUBMIT_ARGS" in os.environ or _in_defaults())


def _in_defaults() -> bool:
    """Whether Spark's file of defaults names a master."""
    directory = os.environ.get("SPARK_CONF_DIR")
    if not directory:
        from pyspark.find_spark_home import _find_spark_home

        find_home: Any = _find_spark_home  # untyped
        directory = f"{find_home()}/conf"
    try:
        text = (Path(directory) / "spark-defaults.conf").read_text("utf-8", "replace")
    except OSError:
        return False
    return _DEFAULT_MASTER.search(text) is not None


def choose_python(conf: Any, *, local: bool) -> None:
    """Set the tasks' Python: PySpark takes it from the environment, even where its setting names another. `conf`: what
    the JVM has been started with."""
    configured = conf.get(PYTHON, None)
    if configured:
        os.environ["PYSPARK_PYTHON"] = configured
    elif local:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
