"""The supervisor's claim on the data directory, and the file in it with the addresses of this proxy.

data_directory.py makes the claim (flock, refusal of network file systems). The children inherit the descriptor, so the
directory is free again when the last process of a proxy has ended, even if the supervisor was killed.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Mapping

from hms_cache_proxy.config import Config, paths
from hms_cache_proxy.processes.data_directory import DataDir, DirectoryInUse, refuse_long_paths

CLAIM_WAIT_S = 5.0  # children of a killed supervisor may still be ending


@contextlib.contextmanager
def claimed(config: Config) -> Iterator[DataDir]:
    """Hold the directory. CacheError if another proxy holds it, or if it cannot be used."""
    if config.source != "none":
        refuse_long_paths((paths.follower_socket(config), paths.worker_socket(config, config.workers - 1)))
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
    """Write the addresses of this proxy atomically: a reader sees the whole object or none."""
    final = paths.addresses(config)
    fresh = final.with_name(final.name + ".new")
    fresh.write_text(json.dumps(facts) + "\n", "utf-8")
    fresh.replace(final)
