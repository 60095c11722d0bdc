"""The supervisor's hold on the data directory, and the note in it that says where this proxy listens.

The claim itself (flock, refusal of network file systems) is data_directory.py's. The children inherit the
descriptor, so the directory is free again when the last process of a proxy is gone, even if the
supervisor was killed.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Mapping

from hms_cache_proxy.config import Config, paths
from hms_cache_proxy.processes.data_directory import DataDir, DirectoryInUse

CLAIM_WAIT_S = 5.0  # children of a supervisor that was killed may still be going


@contextlib.contextmanager
def claimed(config: Config) -> Iterator[DataDir]:
    """Hold the directory; CacheError when another proxy does, or when it cannot be used."""
    deadline = time.monotonic() + CLAIM_WAIT_S
    while True:
        try:
            directory = DataDir(config.data_dir)
            break
        except DirectoryInUse:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
    with directory:
        yield directory
        paths.addresses(config).unlink(missing_ok=True)


def announce(config: Config, facts: Mapping[str, object]) -> None:
    """Write where this proxy listens, in one piece: a reader sees the whole object or none."""
    final = paths.addresses(config)
    fresh = final.with_name(final.name + ".new")
    fresh.write_text(json.dumps(facts) + "\n", "utf-8")
    fresh.replace(final)
