"""A Spark session, and Python functions as its tasks.

Job: start Spark, with one clear error if something is missing; run a function on lists, one task per list, and collect
its results or make a DataFrame of its rows. Must not know: metastores, snapshots.

The tasks use RDDs. A Python data source would be planned on the driver's machine by the executors' Python, which need
not exist there (`spark.archives`), and `mapInArrow` needs pandas.

Owner: the driver's process; the functions run in Spark's Python workers, which need this package.
"""

from __future__ import annotations

import importlib.util
import logging
import re
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from hms_cache_proxy.errors import ConfigError, ProxyError, SnapshotError
from hms_cache_proxy.pipeline import jvm, launch, package
from hms_cache_proxy.pipeline.progress import JobReport

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")
R = TypeVar("R")

APPLICATION = "hms-cache-proxy"
_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.session.timeZone": "UTC",
}
_LOCAL_DEFAULTS = {"spark.sql.shuffle.partitions": "8"}
"""Spark's own default is for clusters."""

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
_NO_ANSWER = re.compile(r"An error occurred while calling \S+|\S+ does not exist in the JVM")
"""Py4J asks the JVM for each class by its name; Spark's own are missing only where nobody answers."""
_FILE = re.compile(r"error while reading file (\S+?)\.? ")
_JVM_GONE = "Spark's JVM has ended: it was killed, or ran out of memory (--conf spark.driver.memory=...)"


def require(*modules: str) -> None:
    """Raise ConfigError if one of these modules is not installed. Call this before anything that takes time."""
    for module in modules:
        if importlib.util.find_spec(module) is None:
            raise ConfigError(_MISSING.format(module))


@contextmanager
def session(master: str | None, options: Mapping[str, str], *, short: bool = True) -> Iterator[SparkSession]:
    """A session for the block: the one that runs in this process, or a new one, which is stopped at the end.

    `master` None: the one that is configured for Spark, or local[*]. `short`: a JVM that is started here has little
    work to do itself. Raises ConfigError if something is missing. A failure of Spark that leaves the block becomes a
    SnapshotError.
    """
    launch.refuse_connect(master, options)
    try:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise ConfigError(_MISSING.format(error.name)) from error
    running = SparkSession.getActiveSession()
    settings = _started(master, options, short=short)
    local = settings[launch.MASTER].startswith("local")
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        spark = builder.getOrCreate()
    except (PySparkException, Py4JError, OSError, RuntimeError) as error:
        why = _NO_MASTER if _STOPPED in (why := _cause(error)) else why
        raise ConfigError(f"Spark's master {settings[launch.MASTER]}: Spark could not start: {why}") from error
    try:
        with _untold(spark), _interruptible(), failures("Spark"), package.shipped(spark, local=local):
            yield spark
    finally:
        if running is None:
            with _untold(spark):
                _stop(spark)


def _started(master: str | None, options: Mapping[str, str], *, short: bool) -> dict[str, str]:
    """Start the JVM, if spark-submit has not; returns the settings of the session, with its master. What spark-submit
    or spark-defaults.conf has set is left as it is."""
    from pyspark import SparkConf

    local, bar = launch.is_local(master, options), "true" if sys.stderr.isatty() else "false"
    settings = {**options, **({} if master is None else {launch.MASTER: master})}
    if not launch.submitted():
        # log level: `failures` reports each failure once
        settings = {"spark.app.name": APPLICATION, _BAR: bar, jvm.LOG_LEVEL: "FATAL", **settings}
    if local:
        settings[jvm.OPTIONS] = f"{jvm.SHORT_JOB if short else jvm.LONG_JOB} {options.get(jvm.OPTIONS, '')}".strip()
    jvm.start(settings, quiet=jvm.LOG_LEVEL not in options and settings.get(_BAR) == "false")
    conf = SparkConf()
    found = settings.get(launch.MASTER) or conf.get(launch.MASTER) or launch.LOCAL
    defaults = {**_DEFAULTS, **(_LOCAL_DEFAULTS if found.startswith("local") else {}), launch.MASTER: found}
    launch.choose_python(conf, local=found.startswith("local"))
    return {
        **{key: value for key, value in defaults.items() if not conf.contains(key)},
        **settings,
        launch.MASTER: found,
    }


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


class RunTasks(Protocol):
    """Runs a function on each of some lists, each as one task; returns the results in their order."""

    def __call__(self, tasks: Sequence[T], run: Callable[[T], R]) -> list[R]: ...


def in_process(tasks: Sequence[T], run: Callable[[T], R]) -> list[R]:
    """Runs tasks in this process, one after the other."""
    return [run(task) for task in tasks]


def on(spark: SparkSession) -> RunTasks:
    """Runs tasks on Spark. `tasks` and `run` are pickled."""

    def collect(tasks: Sequence[T], run: Callable[[T], R]) -> list[R]:
        return list(spark.sparkContext.parallelize(tasks, len(tasks)).map(run).collect()) if tasks else []

    return collect


def data_frame(
    spark: SparkSession, columns: Mapping[str, str], tasks: Sequence[T], read: Callable[[T], Iterable[tuple[Any, ...]]]
) -> DataFrame:
    """The rows that `read` yields for each of `tasks`, in their order; each is one Spark task.

    `columns`: names and Spark types. `read` and `tasks` are pickled.
    """
    schema = ", ".join(f"`{column}` {kind}" for column, kind in columns.items())
    if not tasks:
        return spark.createDataFrame([], schema)
    found = spark.sparkContext.parallelize(tasks, len(tasks)).flatMap(read)
    return spark.createDataFrame(found, schema, verifySchema=False)


@contextmanager
def failures(doing: str, error_class: type[ProxyError] = SnapshotError) -> Iterator[None]:
    """Turns a failure of Spark into an error of one line."""
    try:
        yield
    except _kinds_of_failure() as error:
        raise error_class(f"{doing}: {_cause(error)}") from error


def _kinds_of_failure() -> tuple[type[Exception], ...]:
    """Where Spark is not used, as by a build within this process, it need not be installed."""
    if "pyspark" not in sys.modules:
        return (ConnectionError,)
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return PySparkException, Py4JError, ConnectionError


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
