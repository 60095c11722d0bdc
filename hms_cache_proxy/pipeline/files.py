"""Files on any file system that Spark can write to, by Hadoop's classes in the driver's JVM.

Job: small things beside the data: is it there, list, delete, a document written at once. Must not know: what it is for.
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
    """A directory by its URI."""

    def __init__(self, spark: SparkSession, uri: str) -> None:
        self.uri = uri
        hadoop: Any = spark._jvm  # py4j's view of the JVM: any name is there
        self._path = hadoop.org.apache.hadoop.fs.Path
        self._files = self._do(lambda: self._path(uri).getFileSystem(spark._jsc.hadoopConfiguration()))

    def exists(self, name: str) -> bool:
        """Is there a file or directory of this name?"""
        return bool(self._do(lambda: self._files.exists(self._path(self.uri, name))))

    def names(self) -> list[str]:
        """What is in it, sorted; nothing if it is not there."""
        if not self._do(lambda: self._files.exists(self._path(self.uri))):
            return []
        return sorted(
            str(found.getPath().getName()) for found in self._do(lambda: self._files.listStatus(self._path(self.uri)))
        )

    def make(self, name: str) -> None:
        """A directory in it, and itself. Raises SnapshotError where it may not be made."""
        if not self._do(lambda: self._files.mkdirs(self._path(self.uri, name))):
            raise SnapshotError(f"cannot write to {self.uri}: no permission, or it is read-only")

    def delete(self, name: str) -> None:
        """Remove a file, or a directory with all that is in it."""
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
        """Make a file that is there as a whole or not at all."""
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
