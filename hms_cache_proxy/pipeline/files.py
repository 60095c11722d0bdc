"""Files on any file system that Spark can write to, through Hadoop's classes in the driver's JVM.

Job: small operations beside the data: check whether a file exists, list, delete, write a document atomically. Must not
know: what they are for.
Owner: the driver's process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hms_cache_proxy.errors import SnapshotError
from hms_cache_proxy.pipeline.session import failures

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Directory:
    """A directory, given by its URI."""

    def __init__(self, spark: SparkSession, uri: str) -> None:
        self.uri = uri
        hadoop: Any = spark._jvm  # py4j's view of the JVM has any name
        self._path = hadoop.org.apache.hadoop.fs.Path
        self._files = self._do(lambda: self._path(uri).getFileSystem(spark._jsc.hadoopConfiguration()))

    def exists(self, name: str) -> bool:
        """Whether there is a file or directory of this name."""
        return bool(self._do(lambda: self._files.exists(self._path(self.uri, name))))

    def names(self) -> list[str]:
        """The names in it, sorted; none if the directory does not exist."""
        if not self._do(lambda: self._files.exists(self._path(self.uri))):
            return []
        return sorted(
            str(found.getPath().getName()) for found in self._do(lambda: self._files.listStatus(self._path(self.uri)))
        )

    def make(self, name: str) -> None:
        """Create a directory in it, and the directory itself. Raises SnapshotError if that is not possible."""
        if not self._do(lambda: self._files.mkdirs(self._path(self.uri, name))):
            raise SnapshotError(f"cannot write to {self.uri}: no permission, or it is read-only")

    def delete(self, name: str) -> None:
        """Delete a file, or a directory with everything in it."""
        self._do(lambda: self._files.delete(self._path(self.uri, name), True))

    def read(self, name: str) -> bytes:
        """A file's bytes."""

        def read() -> Any:
            stream = self._files.open(self._path(self.uri, name))
            try:
                return stream.readAllBytes()
            finally:
                stream.close()

        return bytes(self._do(read))

    def write(self, name: str, data: bytes) -> None:
        """Write a file atomically."""
        place = self._path(self.uri, name)
        beside = self._path(place.getParent(), f".{place.getName()}.new")

        def write() -> Any:
            stream = self._files.create(beside, True)
            try:
                stream.write(bytearray(data))
            finally:
                stream.close()
            return self._files.rename(beside, place)

        if not self._do(write):
            raise SnapshotError(f"cannot write {name} to {self.uri}")

    def _do(self, call: Callable[[], Any]) -> Any:
        with failures(self.uri):
            return call()
