"""This package as a zip file, for the Python of Spark's executors.

Job: write the zip, and send it to the executors of a cluster. Must not know: what runs there. The zip has only this
package: what its tasks import (docs/pipeline.md) must be installed there.

Owner: the driver's process.
"""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import hms_cache_proxy
from hms_cache_proxy.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME: Final = "hms_cache_proxy"
ZIP: Final = f"{NAME}.zip"
JOB: Final = f"{NAME}_job.py"
_JOB: Final = f"""# The command line of hms-cache-proxy, for spark-submit --py-files {ZIP} {JOB} snapshot publish ...
from hms_cache_proxy.cli.main import main

main()
"""


def write(directory: Path) -> list[Path]:
    """Write the zip, and a file for spark-submit. Raises ConfigError if that is not possible."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        _write_zip(directory / ZIP)
        (directory / JOB).write_text(_JOB)
    except OSError as error:
        raise ConfigError(f"{directory}: cannot write: {error.strerror}") from error
    return [directory / ZIP, directory / JOB]


@contextmanager
def shipped(spark: SparkSession, *, local: bool) -> Iterator[None]:
    """In the block, the executors of a cluster have this package: --py-files has sent it, or this does."""
    sent = spark.sparkContext.getConf().get("spark.submit.pyFiles", "") or ""
    if local or NAME in sent or not _directory().is_dir():
        yield
        return
    with tempfile.TemporaryDirectory() as directory:
        _write_zip(Path(directory) / ZIP)
        spark.sparkContext.addPyFile(str(Path(directory) / ZIP))
        yield


def _directory() -> Path:
    """Where this package is. Not a directory if it runs from the zip."""
    return Path(hms_cache_proxy.__path__[0])


def _write_zip(path: Path) -> None:
    package = _directory()
    if not package.is_dir():
        raise ConfigError(f"{package} is not a directory: the package runs from a zip already")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(package.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                archive.write(file, Path(NAME) / file.relative_to(package))
