"""A Spark session, and Python functions as its data sources.

Job: start Spark, with one clear error if something is missing; run a function on lists, one task per list, and make a
DataFrame of its Arrow batches. Must not know: metastores, snapshots.

The batches come from a Python data source (Spark 4), because `mapInArrow` needs pandas.

Owner: the driver's process; the function of `data_frame` runs in Spark's Python workers, which need this package.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import re
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from hms_cache_proxy.errors import ConfigError, ProxyError, SnapshotError
from hms_cache_proxy.pipeline import jvm
from hms_cache_proxy.pipeline.progress import JobReport

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")

APPLICATION = "hms-cache-proxy"
_BAR = "spark.ui.showConsoleProgress"
"""Whether Spark's JVM draws its own progress bar."""

_MISSING = "{} is missing: pip install 'hms-cache-proxy[pipeline]'"
_FILE_SYSTEM = ("FileSystem not found", "No FileSystem for scheme", "UnsupportedFileSystemException")
_NO_FILE_SYSTEM = (
    "Spark needs that file system's jar: --conf spark.jars.packages=..., for s3a"
    " org.apache.hadoop:hadoop-aws in the version of Spark's Hadoop"
)
_STOPPED = "stopped SparkContext"
_NO_MASTER = "no Spark master answers there, or it ended the application"
_NO_ANSWER = re.compile(r"An error occurred while calling \S+$")
_FILE = re.compile(r"error while reading file (\S+?)\.? ")
_JVM_GONE = "Spark's JVM has ended: it was killed, or ran out of memory (--conf spark.driver.memory=...)"


def require(*modules: str) -> None:
    """Raise ConfigError if one of these modules is not installed. Call this before anything that takes time."""
    for module in modules:
        if importlib.util.find_spec(module) is None:
            raise ConfigError(_MISSING.format(module))


@contextmanager
def session(master: str, options: Mapping[str, str]) -> Iterator[SparkSession]:
    """A session for the block: the one that runs in this process, or a new one, which is stopped at the end.

    Raises ConfigError if something is missing. A failure of Spark that leaves the block becomes a SnapshotError.
    """
    try:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise ConfigError(_MISSING.format(error.name)) from error
    if master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    defaults = {
        "spark.master": master,
        "spark.app.name": APPLICATION,
        "spark.ui.enabled": "false",
        _BAR: "true" if sys.stderr.isatty() else "false",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.sql.session.timeZone": "UTC",
        jvm.LOG_LEVEL: "FATAL",  # `failures` reports each failure once
    }
    settings = {**defaults, **options}
    if master.startswith("local"):
        settings[jvm.OPTIONS] = f"{jvm.LOCAL_OPTIONS} {options.get(jvm.OPTIONS, '')}".strip()
    running = SparkSession.getActiveSession()
    jvm.start(settings, quiet=jvm.LOG_LEVEL not in options and settings[_BAR] == "false")
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        spark = builder.getOrCreate()
    except (PySparkException, Py4JError, OSError, RuntimeError) as error:
        why = _cause(error)
        raise ConfigError(
            f"--master {master}: Spark could not start: {_NO_MASTER if _STOPPED in why else why}"
        ) from error
    try:
        with _untold(spark), _interruptible(), failures("Spark"):
            yield spark
    finally:
        if running is None:
            with _untold(spark):
                _stop(spark)


@contextmanager
def _untold(spark: SparkSession) -> Iterator[None]:
    """Keeps PySpark from logging tracebacks about a JVM that has ended, which `failures` reports."""

    def not_of_py4j(record: logging.LogRecord) -> bool:
        return "py4j" not in Path(record.pathname).parts

    accumulators: Any = spark.sparkContext._accumulatorServer
    accumulators.handle_error = lambda *_: None
    logging.getLogger().addFilter(not_of_py4j)
    try:
        yield
    finally:
        logging.getLogger().removeFilter(not_of_py4j)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C ends the block. PySpark's own handler would call the JVM in the middle of another call, and py4j would log
    that at length."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed = threading.Event()

    def interrupt(_number: int, _frame: Any) -> None:
        pressed.set()
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    except Exception as error:
        if pressed.is_set():  # py4j has turned it into another exception
            raise KeyboardInterrupt from error
        raise
    finally:
        signal.signal(signal.SIGINT, before)


def _stop(spark: SparkSession) -> None:
    from py4j.protocol import Py4JError

    with suppress(Py4JError, OSError), warnings.catch_warnings():  # `failures` has reported a JVM that has ended
        warnings.simplefilter("ignore", RuntimeWarning)
        spark.stop()


def data_frame(
    spark: SparkSession, name: str, columns: Mapping[str, str], tasks: Sequence[T], read: Callable[[T], Iterator[Any]]
) -> DataFrame:
    """The batches that `read` yields for each of `tasks`, in their order; each is one Spark task.

    `columns`: names and Spark types. `read` and `tasks` are pickled. Raises ConfigError if pyarrow is missing.
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
    """Turns a failure of Spark into an error of one line."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError, ConnectionError) as error:
        raise error_class(f"{doing}: {_cause(error)}") from error


@contextmanager
def phase(name: str, report: JobReport, error_class: type[ProxyError] = SnapshotError) -> Iterator[None]:
    """A part of a job: its errors name it, and a line reports how long it took."""
    began_s = time.monotonic()
    with failures(name, error_class):
        yield
    report.tell(f"{name}: {time.monotonic() - began_s:.1f} s")


def _cause(error: BaseException) -> str:
    """The line of a Spark failure that says what happened: this package's error in a task, or the innermost of Java."""
    from py4j.protocol import Py4JNetworkError

    try:
        if isinstance(error, (Py4JNetworkError, ConnectionError)) or _NO_ANSWER.fullmatch(str(error)):
            return _JVM_GONE
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        file = _FILE.search(str(error))
        ours = [line for line in lines if line.startswith("hms_cache_proxy.errors.")]
        if ours:
            return ours[-1].partition(": ")[2]
        cause = getattr(error, "java_exception", None)
        while cause is not None and cause.getCause() is not None:
            cause = cause.getCause()
        found = jvm.first_line(error if cause is None else Exception(cause.toString()))
        if file is not None and cause is not None:
            found = f"{file[1]}: {found}"
    except (OSError, Py4JNetworkError):  # when the JVM was asked for the cause
        return _JVM_GONE
    return f"{found}; {_NO_FILE_SYSTEM}" if any(word in found for word in _FILE_SYSTEM) else found
