"""Writes the files of a command: each is replaced as a whole, and an error of the disk is one line.

Job: put a new file in the place of the old one, so that a command that is interrupted leaves the old file. A link, a
device or a pipe is written to as it is. Must not know: what is in the file.
"""

from __future__ import annotations

from pathlib import Path

from hms_cache_proxy.errors import ProxyError


def write(path: Path, data: bytes, error_class: type[ProxyError]) -> None:
    """Write the file beside its place, and rename it. Raises an `error_class` that names it."""
    try:
        in_place = path.is_symlink() or (path.exists() and not path.is_file())
        fresh = path if in_place else path.with_name(f".{path.name}.new")
        fresh.write_bytes(data)
        if not in_place:
            fresh.replace(path)
    except OSError as error:
        raise error_class(f"cannot write {path}: {error.strerror}") from error
