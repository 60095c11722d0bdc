"""Where snapshots are: the file system of a URI, the snapshots below it, and their files, which are checked.

Job: read and write bytes by name, through pyarrow's file systems (local, S3, GCS, HDFS) or, for other schemes,
fsspec's. Must not know: what is in the files, Spark. A URI is one snapshot (with a manifest), or a directory of
published snapshots with names like `snapshot-<time>-<eight hexadecimal digits>`. The greatest name is the newest
snapshot; other names are ignored.

Invariants:
- What `read` returns has the size and checksum that the manifest states.
- A file that `write` has written is complete. On an object store it is one object, which appears when it is complete;
  nothing is renamed there. Elsewhere the file is written under another name and then renamed. On a local disk it is
  also there after the machine loses its power: so a manifest there never names files that are not.

All errors of a file system become SnapshotError. An object store that is silent is waited for, for minutes in all; who
must show that it lives meanwhile, or may be told to end, gives `waiting`. Owner: any process; needs pyarrow.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread
from typing import Any, Final, TypeVar

from hms_cache_proxy.errors import SnapshotError
from hms_cache_proxy.plurals import counted
from hms_cache_proxy.retry import Retry
from hms_cache_proxy.snapshots import manifest, s3
from hms_cache_proxy.snapshots.manifest import PREFIX, File, Manifest

TIME: Final = "%Y%m%dT%H%M%SZ"
_NAME: Final = re.compile(re.escape(PREFIX) + r"(\d{8}T\d{6}Z)-([0-9a-f]{5})[0-9a-f]{3}")

_OBJECT_STORES: Final = ("s3", "gcs", "abfs")
"""pyarrow's names of file systems without directories, where an object appears when its upload ends."""


PAUSES_S: Final = (0.5, 2.0)
"""Between attempts at an operation on an object store."""

DELETIONS: Final = 60
"""Attempts to delete a directory of which another process deletes something at the same time."""

SIGN_OF_LIFE_S: Final = 1.0

T = TypeVar("T")


class Place:
    """A directory on some file system. `waiting` is called after each operation, and every SIGN_OF_LIFE_S during one.
    If it raises, the operation is left behind."""

    def __init__(self, uri: str, waiting: Callable[[], None] | None = None) -> None:
        self.uri = as_uri(uri)
        self._waiting = waiting
        self._files, self._path = self._waited_for(lambda: _file_system(self.uri))

    def below(self, name: str) -> Place:
        """A directory in this directory."""
        uri, mark, query = self.uri.partition("?")  # of an object store: its endpoint, for example
        return Place(f"{uri.rstrip('/')}/{name}{mark}{query}", self._waiting)

    def snapshots(self) -> list[Place]:
        """The snapshots here, newest first: this place itself, or the directories in it, with or without a manifest."""
        import pyarrow.fs

        names = []
        for info in self._listing():
            if info.base_name == manifest.NAME:
                return [self]
            if published_us(info.base_name) is not None and info.type == pyarrow.fs.FileType.Directory:
                names.append(info.base_name)
        return [self.below(name) for name in sorted(names, reverse=True)]

    def manifest(self) -> Manifest | None:
        """The manifest; None if there is none. Raises SnapshotError if it cannot be used."""
        if all(info.base_name != manifest.NAME for info in self._listing()):
            return None
        return Manifest.parse(self._bytes(manifest.NAME))

    def gone(self, made: Manifest) -> str | None:
        """The name of another snapshot, beside this one, that has some of its files and is not there any more."""
        names = (name for name in sorted(made.elsewhere) if not self.exists(f"../{name}/{manifest.NAME}"))
        return next(names, None)

    def read(self, file: File) -> bytes:
        """The bytes of a file. Raises SnapshotError if size or checksum differ from the manifest."""
        data = self._bytes(file.name)
        if len(data) != file.bytes:
            raise SnapshotError(f"{file.name} has {counted(len(data), 'byte')}, not {file.bytes:,}")
        if hashlib.sha256(data).hexdigest() != file.sha256:
            raise SnapshotError(f"the checksum of {file.name} is wrong")
        return data

    def document(self, name: str) -> bytes:
        """The bytes of a file that no manifest describes."""
        return self._bytes(name)

    def exists(self, name: str) -> bool:
        """Whether there is a file or directory of this name."""
        import pyarrow.fs

        with self._failing(f"{name} in {{}} cannot be looked up"):
            (info,) = self._patiently(lambda: self._files.get_file_info([self._at(name)]))
        return bool(info.type != pyarrow.fs.FileType.NotFound)

    def names(self) -> list[str]:
        """The names of files and directories here, sorted; none if the place does not exist."""
        return sorted(info.base_name for info in self._listing(allow_not_found=True))

    def write(self, name: str, data: bytes) -> None:
        """Write a file. It appears when it is complete."""
        path = self._at(name)
        with self._failing("{} cannot be written"):
            if self._files.type_name in _OBJECT_STORES:
                self._patiently(lambda: self._put(path, data))
                return
            if self._files.type_name == "local":
                _write_durably(Path(path), data)
                return
            parent, _, last = path.rpartition("/")
            self._files.create_dir(parent)
            self._put(f"{parent}/.{last}.new", data)
            self._files.move(f"{parent}/.{last}.new", path)

    def _put(self, path: str, data: bytes) -> None:
        with self._files.open_output_stream(path) as stream:
            stream.write(data)

    def delete(self, name: str) -> None:
        """Delete a file, or a directory with everything in it, if it exists."""
        path = self._at(name)
        with self._failing(f"{name} in {{}} cannot be deleted"):
            self._patiently(lambda: self._delete(path))

    def _listing(self, *, allow_not_found: bool = False) -> list[Any]:
        import pyarrow.fs

        with self._failing("{} cannot be listed"):
            selector = pyarrow.fs.FileSelector(self._path, allow_not_found)
            return list(self._patiently(lambda: self._files.get_file_info(selector)))

    def _bytes(self, name: str) -> bytes:
        with self._failing(f"{name} in {{}} cannot be read"):
            return self._patiently(lambda: self._get(self._at(name)))

    def _get(self, path: str) -> bytes:
        with self._files.open_input_stream(path) as stream:
            return bytes(stream.read())

    def _delete(self, path: str) -> None:
        """Also while other processes delete the same: who finds that another was first lets it go on for a while."""
        retry = Retry(0.01, 1.0)
        for _ in range(DELETIONS - 1):
            with suppress(FileNotFoundError):
                return self._delete_once(path)
            time.sleep(retry.failed())
        return self._delete_once(path)

    def _delete_once(self, path: str) -> None:
        import pyarrow.fs

        (info,) = self._files.get_file_info([path])
        if info.type == pyarrow.fs.FileType.Directory:
            self._files.delete_dir(path)
        elif info.type != pyarrow.fs.FileType.NotFound:
            self._files.delete_file(path)

    def _patiently(self, operation: Callable[[], T]) -> T:
        """Try an operation on an object store more than once. pyarrow itself repeats most requests that fail, but not
        those without an answer that says why, nor a whole upload that the store no longer knows at its end. Every
        operation here has the same result if it is done twice."""
        for pause_s in PAUSES_S if self._files.type_name in _OBJECT_STORES else ():
            try:
                return self._waited_for(operation)
            except FileNotFoundError:
                raise
            except OSError:
                time.sleep(pause_s)
        return self._waited_for(operation)

    def _waited_for(self, operation: Callable[[], T]) -> T:
        """The result of an operation. With `waiting`, another thread carries it out."""
        if self._waiting is None:
            return operation()
        future: Future[T] = Future()
        Thread(target=_carry_out, args=(operation, future), name="snapshot", daemon=True).start()
        while not wait([future], SIGN_OF_LIFE_S).done:
            self._waiting()
        self._waiting()
        return future.result()

    def _at(self, name: str) -> str:
        directory = self._path.rstrip("/")
        if name.startswith("../"):  # an object store knows no such names
            return f"{directory.rpartition('/')[0]}/{name.removeprefix('../')}"
        return f"{directory}/{name}"

    @contextmanager
    def _failing(self, words: str) -> Iterator[None]:
        """Turns an error of the file system into a SnapshotError: `words`, in which {} is the URI, and the reason."""
        import pyarrow

        try:
            yield
        except (OSError, pyarrow.ArrowException) as error:  # errors of Azure are not OSErrors
            raise SnapshotError(f"{words.format(self.uri)}: {error}") from error


def _carry_out(operation: Callable[[], T], future: Future[T]) -> None:
    """In a daemon thread: the process does not wait for it at its end, as it would for one of an executor."""
    try:
        future.set_result(operation())
    except BaseException as error:
        future.set_exception(error)


def _write_durably(path: Path, data: bytes) -> None:
    _make_durably(path.parent)
    fresh = path.with_name(f".{path.name}.new")
    with fresh.open("wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())
    fresh.replace(path)
    _sync_directory(path.parent)


def _make_durably(directory: Path) -> None:
    if not directory.is_dir():
        _make_durably(directory.parent)
        directory.mkdir(exist_ok=True)
        _sync_directory(directory.parent)


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def published_us(name: str) -> int | None:
    """When a published snapshot was begun, by its name: microseconds since 1970. None for any other name."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    try:
        begun = datetime.strptime(found[1], TIME).replace(tzinfo=UTC)
    except ValueError:  # no such day
        return None
    return int(begun.timestamp()) * 1_000_000 + int(found[2], 16)


def newest(uri: str) -> tuple[Place, Manifest]:
    """The snapshot at a URI, or the newest of those below it. Raises SnapshotError."""
    for place in Place(uri).snapshots():
        found = place.manifest()
        if found is not None:
            return place, found
    raise SnapshotError(f"{uri} has no snapshot")


def as_uri(place: str) -> str:
    """The URI of a place, which is a URI or a path."""
    return place.rstrip("/") if "://" in place or place.startswith("file:") else Path(place).absolute().as_uri()


def _file_system(uri: str) -> tuple[Any, str]:
    try:
        import pyarrow.fs
    except ImportError as error:
        raise SnapshotError("reading snapshots needs pyarrow: pip install 'hms-cache-proxy[bootstrap]'") from error
    if uri.startswith("file:/") and not uri.startswith("file://"):
        uri = "file://" + uri.removeprefix("file:")
    try:
        if uri.partition("://")[0] in s3.SCHEMES:
            return s3.file_system(uri)
        found: tuple[Any, str] = pyarrow.fs.FileSystem.from_uri(uri)
        return found
    except (OSError, pyarrow.ArrowException) as error:
        if not isinstance(error, pyarrow.ArrowInvalid):
            raise SnapshotError(f"{uri} cannot be opened: {error}") from error
    return _other(uri)


def _other(uri: str) -> tuple[Any, str]:
    import pyarrow.fs

    try:
        from fsspec.core import url_to_fs

        files, path = url_to_fs(uri)
    except (ImportError, ValueError, OSError) as error:
        raise SnapshotError(f"{uri} is not on a file system that pyarrow or fsspec can read: {error}") from error
    return pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(files)), path
