"""A Spark session, and functions of ours as its data sources.

Job: start Spark with one clear error for what is missing; run a function on lists of anything, one task for each list,
whose Arrow batches are a DataFrame. Must not know: metastores, snapshots.

Arrow goes in by Spark's Python data sources (Spark 4): `mapInArrow` would need pandas.

Owner: the driver's process; what `data_frame` is given runs in Spark's Python workers, which need this package.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from hms_cache_proxy.errors import ConfigError, ProxyError, SnapshotError
from hms_cache_proxy.pipeline.progress import Report

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")

APPLICATION = "hms-cache-proxy"
_MISSING = "{} is missing: pip install 'hms-cache-proxy[pipeline]'"
_FILE_SYSTEM = ("FileSystem not found", "No FileSystem for scheme", "UnsupportedFileSystemException")
_NO_FILE_SYSTEM = (
    "Spark needs that file system's jar: --conf spark.jars.packages=..., for s3a"
    " org.apache.hadoop:hadoop-aws of the version of Spark's own Hadoop"
)
_NO_JAVA = (
    "Spark could not start its JVM: Java 17 or newer is needed (JAVA_HOME, or `java` in the PATH), and a --master"
    " that can be reached"
)


def require(*modules: str) -> None:
    """Raises ConfigError where one of these is not installed, before anything takes time."""
    for module in modules:
        if importlib.util.find_spec(module) is None:
            raise ConfigError(_MISSING.format(module))


@contextmanager
def session(master: str, options: Mapping[str, str]) -> Iterator[SparkSession]:
    """A session for the block: the one that runs in this process already, else a new one, which is stopped at its end.

    Raises ConfigError where something is missing.
    """
    try:
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise ConfigError(_MISSING.format(error.name)) from error
    if master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    running = SparkSession.getActiveSession()
    builder = SparkSession.builder.master(master).appName(APPLICATION)
    defaults = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "true" if sys.stderr.isatty() else "false",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.sql.session.timeZone": "UTC",
        "spark.log.level": "FATAL",  # what fails is told once, by `failures`
    }
    for key, value in {**defaults, **options}.items():
        builder = builder.config(key, value)
    try:
        spark = builder.getOrCreate()
    except (PySparkException, OSError, RuntimeError) as error:
        raise ConfigError(f"{_NO_JAVA}: {first_line(error)}") from error
    try:
        yield spark
    finally:
        if running is None:
            spark.stop()


def data_frame(
    spark: SparkSession, name: str, columns: Mapping[str, str], tasks: Sequence[T], read: Callable[[T], Iterator[Any]]
) -> DataFrame:
    """The batches that `read` yields for each of `tasks`, one Spark task each, in their order.

    `columns`: names and Spark types; `read` and `tasks` are pickled. Raises ConfigError where pyarrow is missing.
    """
    try:
        import pyarrow  # noqa: F401
        from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
    except ImportError as error:
        raise ConfigError(_MISSING.format(error.name)) from error

    source_name = f"hms_cache_proxy_{name}"

    class Reader(DataSourceReader):
        def partitions(self) -> Sequence[InputPartition]:
            return [InputPartition(task) for task in tasks]

        def read(self, partition: InputPartition) -> Iterator[Any]:
            return iter(() if partition.value is None else read(partition.value))

    class Source(DataSource):
        @classmethod
        def name(cls) -> str:
            return source_name

        def schema(self) -> str:
            return ", ".join(f"`{column}` {kind}" for column, kind in columns.items())

        def reader(self, schema: Any) -> DataSourceReader:
            return Reader()

    spark.dataSource.register(Source)
    return spark.read.format(source_name).load()


@contextmanager
def failures(doing: str, error_class: type[ProxyError] = SnapshotError) -> Iterator[None]:
    """Spark's failures as one line of ours."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise error_class(f"{doing}: {_cause(error)}") from error


@contextmanager
def phase(name: str, report: Report, error_class: type[ProxyError] = SnapshotError) -> Iterator[None]:
    """A part of a job: its failures by name, and a line about how long it took."""
    began_s = time.monotonic()
    with failures(name, error_class):
        yield
    report.tell(f"{name}: {time.monotonic() - began_s:.1f} s")


def _cause(error: BaseException) -> str:
    """The line of a Spark failure that says what happened: an error of ours in a task, or Java's innermost one."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith("hms_cache_proxy.errors.")]
    if ours:
        return ours[-1].partition(": ")[2]
    cause = getattr(error, "java_exception", None)
    while cause is not None and cause.getCause() is not None:
        cause = cause.getCause()
    found = first_line(error) if cause is None else first_line(Exception(cause.toString()))
    return f"{found}; {_NO_FILE_SYSTEM}" if any(word in found for word in _FILE_SYSTEM) else found


def first_line(error: BaseException) -> str:
    """What an exception says, in one line."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
