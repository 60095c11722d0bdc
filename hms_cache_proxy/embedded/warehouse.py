"""Directories of databases, tables and partitions.

Job: choose default locations as Hive's Warehouse does; make, move and remove directories of `file:` URIs. On other file
systems nothing is done, and one warning is logged. Must not know: the database, calls.
Owner: the metastore's process, any thread.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from pathlib import Path
from urllib.parse import urlsplit

import structlog

from hms_cache_proxy.embedded.failures import meta

log = structlog.get_logger()

DATABASE_SUFFIX = ".db"
DEFAULT_DATABASE = "default"


def path_text(uri: str) -> str:
    """A location as Hadoop's Path prints it: `file:///a//b/../c/` is `file:/a/c`."""
    match = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", uri, re.DOTALL)
    scheme, rest = (match[1] + ":", match[2]) if match else ("", uri)
    authority = ""
    if rest.startswith("//"):
        authority, slash, rest = rest[2:].partition("/")
        authority, rest = (f"//{authority}" if authority else ""), slash + rest
    rest = re.sub(r"/+", "/", rest)
    if len(rest) > 1 and rest.endswith("/"):
        rest = rest[:-1]
    return scheme + authority + (_plain(rest) if "." in rest else rest)


def _plain(path: str) -> str:
    """The path without `.` and `..`, as java.net.URI.normalize makes it: a `..` above the beginning stays."""
    kept: list[str] = []
    for step in path.split("/"):
        if step == ".." and kept and kept[-1] not in ("", ".."):
            kept.pop()
        elif step != ".":
            kept.append(step)
    return "/".join(kept)


def absolute(uri: str) -> str:
    """The location of a new object, as path_text, with a scheme. MetaException for a relative one, as in Hadoop."""
    text = path_text(uri)
    if text.startswith("/"):
        return f"file:{text}"
    if without_scheme(text)[:1] not in ("", "/"):
        raise meta(
            "java.lang.IllegalArgumentException: java.net.URISyntaxException: Relative path in absolute URI:"
            f" file:./{text}"
        )
    return text


def is_root(uri: str | None) -> bool:
    """Is it the root of a file system?"""
    return bool(uri) and without_scheme(uri or "") in ("", "/")


def without_scheme(uri: str) -> str:
    """The path of a location."""
    text = path_text(uri)
    match = re.match(r"[A-Za-z][A-Za-z0-9+.-]*:(?://[^/]*)?(.*)", text, re.DOTALL)
    return match[1] if match else text


_EXISTS = "Got exception: org.apache.hadoop.fs.FileAlreadyExistsException Destination exists and is not a directory: {}"
_NO_PARENT = "Got exception: org.apache.hadoop.fs.ParentNotDirectoryException Parent path is not a directory: file:{}"


class Warehouse:
    """The default locations, and operations on directories."""

    def __init__(self, managed: str, external: str, trash: str = "", *, delete_shared: bool = False) -> None:
        """`delete_shared`: also remove directories that contain other objects (directories.py checks this)."""
        self.delete_shared = delete_shared
        self.managed = path_text(managed)
        self.external = path_text(external)
        self._trash = Path(without_scheme(trash)) / "Current" if trash else None
        self._warned: set[str] = set()

    def database_path(self, name: str, *, external: bool = True, catalog_location: str | None = None) -> str:
        """The default location of a database; for `default` it is the warehouse itself."""
        root = path_text(catalog_location) if catalog_location else self.external if external else self.managed
        return root if name == DEFAULT_DATABASE else f"{root}/{name}{DATABASE_SUFFIX}"

    def in_managed(self, location: str) -> bool:
        """Is it the managed warehouse, or inside it?"""
        return is_below(without_scheme(self.managed), without_scheme(location))

    def local(self, location: str) -> Path | None:
        """The directory of a `file:` URI (or bare path); None, and one warning, for other file systems."""
        parts = urlsplit(location)
        if parts.scheme in ("", "file") and parts.netloc in ("", "localhost"):
            return Path(without_scheme(location))
        if parts.scheme not in self._warned:
            self._warned.add(parts.scheme)
            log.warning("locations on this file system are only recorded", scheme=parts.scheme, example=location)
        return None

    def make(self, location: str) -> bool:
        """Make a directory; True if it is new. MetaException if it cannot be made."""
        path = self.local(location)
        try:
            if path is None or path.is_dir():
                return False
            path.mkdir(parents=True, exist_ok=True)
        except FileExistsError as error:
            assert path is not None
            nowhere = f"{location} is not a directory or unable to create one"
            raise meta(nowhere if path.is_symlink() else _EXISTS.format(path)) from error
        except NotADirectoryError as error:
            assert path is not None
            file = next(parent for parent in path.parents if parent.exists())
            raise meta(_NO_PARENT.format(file)) from error
        except OSError as error:
            raise meta(f"{location} is not a directory or unable to create one: {error.strerror}") from error
        return True

    def remove(self, location: str, *, purge: bool = False) -> None:
        """Remove a directory and its contents, or move it to the trash. It need not exist.

        Of a link, only the link is removed. What cannot be removed stays, with a log line: the call is committed, and
        files without an object are harmless.
        """
        path = self.local(location)
        if path is None or not path.exists() or path == Path(path.anchor):
            return
        try:
            if self._trash is not None and not purge and not path.is_relative_to(self._trash.parent):
                self._throw_away(path, self._trash)
            elif path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, onerror=_stays)
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            _tell_of(path, error)

    def _throw_away(self, path: Path, trash: Path) -> None:
        """Move to `Current/PATH`; if that exists, with the time after the name (Hadoop's TrashPolicyDefault)."""
        target = trash / path.relative_to(path.anchor)
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists():
            target = target.with_name(f"{target.name}{time.time_ns() // 1_000_000}")
        shutil.move(path, target)

    def remove_empty_parents(self, location: str, depth: int, *, purge: bool = False) -> None:
        """Remove the parents of a directory that are empty, at most `depth`."""
        path = self.local(location)
        for parent in [] if path is None else list(path.parents)[:depth]:
            try:
                if not parent.is_dir() or any(parent.iterdir()):
                    return
            except OSError as error:
                return _tell_of(parent, error)
            self.remove(str(parent), purge=purge)

    def unmake(self, location: str) -> None:
        """Remove a directory that was just made, if it is still empty."""
        path = self.local(location)
        if path is not None:
            try:
                path.rmdir()
            except OSError:
                return

    def exists(self, location: str) -> bool:
        """Does it exist? False if this cannot be determined."""
        path = self.local(location)
        return path is not None and path.exists()

    def move(self, source: str, target: str) -> bool:
        """Move a directory; False if there was nothing to move. MetaException if it cannot be moved."""
        old, new = self.local(source), self.local(target)
        if old is None or new is None or not old.exists():
            return False
        try:
            new.parent.mkdir(parents=True, exist_ok=True)
            os.rename(old, new)
        except OSError as error:
            raise meta(f"Unable to move {source} to {target}: {error.strerror}") from error
        return True

    def copy(self, source: str, target: str) -> None:
        """Copy a directory that exists. MetaException if it cannot be copied."""
        old, new = self.local(source), self.local(target)
        assert old is not None and new is not None, "both are beside each other"
        try:
            shutil.copytree(old, new)
        except OSError as error:
            raise meta(f"Unable to copy {source} to {target}: {error.strerror or error}") from error

    def empty(self, location: str, *, purge: bool = False) -> None:
        """Remove a directory, and make it again with the same permissions (HMSHandler.truncateDataFiles)."""
        path = self.local(location)
        if path is None or not path.exists():
            return
        mode = path.stat().st_mode & 0o7777 | (0 if path.is_dir() else 0o111)
        self.remove(location, purge=purge)
        try:
            path.mkdir(exist_ok=True)
            path.chmod(mode)
        except OSError as error:
            _tell_of(path, error)

    def write(self, directory: str, name: str, text: str) -> None:
        """Write a small file into a directory, which is made if it does not exist."""
        path = self.local(directory)
        if path is not None:
            try:
                path.mkdir(parents=True, exist_ok=True)
                (path / name).write_text(text)
            except OSError as error:
                _tell_of(path, error)

    def files(self, location: str) -> list[str]:
        """URIs of the files in a directory without hidden ones, in order of their names."""
        path = self.local(location)
        if path is None or not path.is_dir():
            return []
        return [f"file:{entry}" for entry in sorted(path.iterdir()) if entry.name[0] not in "_." and entry.is_file()]

    def totals(self, location: str) -> tuple[int, int]:
        """(files, bytes) below a directory, without hidden files (names that begin with `_` or `.`)."""
        path = self.local(location)
        files = size = 0
        if path is None or not path.is_dir():
            return 0, 0
        for directory, below, names in os.walk(path):
            below[:] = [name for name in below if name[0] not in "_."]
            for name in names:
                if name[0] not in "_.":
                    files += 1
                    size += (Path(directory) / name).stat().st_size
        return files, size


def _stays(_function: object, path: str, error: tuple[type[BaseException], BaseException, object]) -> None:
    """Log an error of shutil.rmtree, which then continues."""
    _tell_of(path, error[1])


def _tell_of(path: Path | str, error: BaseException) -> None:
    log.error("files could not be removed or made: look after them by hand", path=str(path), error=str(error))


def is_below(parent: str, child: str) -> bool:
    """Is `child` the path `parent`, or inside it?"""
    return (child.rstrip("/") + "/").startswith(parent.rstrip("/") + "/")
