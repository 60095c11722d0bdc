"""The doctor's check of this machine: data directory, file descriptors, cores. Nothing is created."""

from __future__ import annotations

import fcntl
import os
import resource
import shutil
from collections.abc import Iterator
from pathlib import Path

from hms_cache_proxy.config import Config, paths
from hms_cache_proxy.doctor.finding import Finding, Severity
from hms_cache_proxy.errors import CacheError
from hms_cache_proxy.plurals import counted
from hms_cache_proxy.processes.cores import usable_cores
from hms_cache_proxy.processes.data_directory import refuse_network_file_system

_SUBJECT = "data directory"
_MACHINE = "machine"


def look_at_machine(config: Config) -> list[Finding]:
    """The findings about the data directory, the cores and the limit on open files."""
    return [*_directory(config), *_limits(config)]


def _directory(config: Config) -> Iterator[Finding]:
    directory = Path(config.data_dir).absolute()
    advice = f"make it writable for the account that runs the proxy (user id {os.geteuid()}), or set data_dir"
    try:
        existing = next(path for path in (directory, *directory.parents) if path.exists())
    except PermissionError as error:  # a directory above it
        yield Finding(_SUBJECT, Severity.ERROR, f"{directory} cannot be looked up: {error.strerror}", advice)
        return
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        yield Finding(_SUBJECT, Severity.ERROR, f"{existing} cannot be written to", advice)
        return
    try:
        refuse_network_file_system(existing)
    except CacheError as error:
        yield Finding(_SUBJECT, Severity.ERROR, str(error), "")
        return
    free, most = shutil.disk_usage(existing).free, config.cache.max_bytes
    text = f"{directory}: {free / (1 << 30):,.1f} GiB free, cache.max_bytes is {most / (1 << 30):,.1f} GiB"
    if free + _used(config) < most:
        yield Finding(_SUBJECT, Severity.WARNING, text, "lower cache.max_bytes, or use a larger disk")
    else:
        yield Finding(_SUBJECT, Severity.OK, text)
    holder = _holder(paths.lock(config))
    if holder is not None:
        text, advice = f"in use by process {holder}", "a proxy is running on it; another proxy needs its own data_dir"
        yield Finding(_SUBJECT, Severity.NOTE, text, advice)


def _used(config: Config) -> int:
    file = paths.cache(config) / "data.mdb"
    return file.stat().st_blocks * 512 if file.exists() else 0


def _holder(lock: Path) -> str | None:
    """The process that holds the data directory; "unknown" if the lock file does not say which."""
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.read(descriptor, 32).decode("ascii", "replace").strip() or "unknown"
    finally:
        os.close(descriptor)
    return None


def _limits(config: Config) -> Iterator[Finding]:
    workers = config.workers or usable_cores()
    yield Finding(_MACHINE, Severity.OK, f"{counted(usable_cores(), 'usable core')}, {counted(workers, 'worker')}")
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 2 * config.limits.max_connections + 64  # each client has one more to the metastore; 64 are for files
    if hard != resource.RLIM_INFINITY and hard < needed:
        needs = f"limits.max_connections = {config.limits.max_connections} needs {needed}"
        text = f"a process may open {counted(hard, 'file')}; {needs}"
        advice = (
            "raise it (LimitNOFILE= in systemd, ulimit -Hn, --ulimit nofile= of a container), or lower max_connections"
        )
        yield Finding(_MACHINE, Severity.WARNING, text, advice)
    else:
        clients = counted(config.limits.max_connections, "client")
        yield Finding(_MACHINE, Severity.OK, f"enough file descriptors for {clients}")
