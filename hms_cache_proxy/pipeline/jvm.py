"""Starts the JVM of Spark's driver, or says why it did not start.

Job: launch it with the settings that it needs from the beginning. Its standard error goes to an anonymous file, because
it has warnings of Java and Spark at each start, and stack traces of failures that are reported in one line anyway. If
the JVM ends at once, the reason is taken from that file. With `--conf spark.log.level=...`, standard error is not
redirected.

Must not know: sessions, jobs.

Owner: the driver's process; the JVM ends with it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from typing import IO, Any, Final

from hms_cache_proxy.errors import ConfigError

SHORT_JOB: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options for a JVM that has less than a minute of work to do itself: the second compiler and a collector with threads
cost more than they save (benchmarks/advise.py)."""

LONG_JOB: Final = "-XX:+UseParallelGC"
"""Options for any other: no pause of the collector is too long for a batch job."""

LOG_LEVEL: Final = "spark.log.level"
OPTIONS: Final = "spark.driver.extraJavaOptions"
SAID_BYTES: Final = 64 << 10

_NO_JAVA: Final = (
    "Spark could not start its JVM: Java 17 or newer is needed (JAVA_HOME, or `java` in the PATH), and valid settings"
    " (--conf)"
)
_SPARKS: Final = "org.apache.spark.SparkException: "
"""The beginning of Spark's message about a wrong setting, once the JVM runs."""


def start(settings: Mapping[str, str], *, quiet: bool) -> None:
    """Launch the JVM, unless this process has one. Raises ConfigError, or ImportError if PySpark is missing."""
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None:
        return
    conf = SparkConf().setAll(list(settings.items()))
    with tempfile.TemporaryFile() as said:
        try:
            launch: Any = launch_gateway
            gateway = launch(conf, {"stderr": said} if quiet else {})
        except (PySparkException, OSError) as error:
            why = _reason(said) or first_line(error)
            raise ConfigError(f"{'Spark could not start' if _SPARKS in why else _NO_JAVA}: {why}") from error
    SparkContext._ensure_initialized(gateway=gateway)


def _reason(said: IO[bytes]) -> str:
    """The most useful line: the first failure, otherwise the first line."""
    said.seek(0)
    lines = [line.strip() for line in said.read(SAID_BYTES).decode("utf-8", "replace").splitlines()]
    lines = [line for line in lines if line and not line.startswith("WARNING:")]
    failures = [line for line in lines if "Exception" in line or "VersionError" in line]
    return (failures or lines or [""])[0].removeprefix('Exception in thread "main" ')


def first_line(error: BaseException) -> str:
    """The message of an exception, in one line."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
