"""Prepares recordings before the workers start.

Job: begin or continue the file of `record`, and check the file of `replay`. An error in either is reported once and
ends the start. Must not know: requests. Owner: the supervisor.
"""

from __future__ import annotations

import time
from collections import Counter

import structlog

from hms_cache_proxy.config import Config
from hms_cache_proxy.recording.file import Damage, RecordingFile

log = structlog.get_logger()


def begin(config: Config) -> RecordingFile:
    """The recording of this run, new or continued. ConfigError if the file cannot be used."""
    now_ms = time.time_ns() // 1_000_000
    until_ms = now_ms + int(config.record_for * 1000) if config.record_for not in (0, float("inf")) else 0
    file, damage = RecordingFile.begin(config.record, now_ms, until_ms)
    if damage is not None:
        log.warning("the damaged end of the recording was removed", file=file.path, why=str(damage))
    header = file.header()
    results, size = header.records, header.end
    log.info("recording", file=file.path, results=results, bytes=size, seconds=config.record_for or "until stopped")
    return file


def examine(path: str) -> None:
    """Log what a recording to be replayed contains. ConfigError if it is not a recording."""
    file = RecordingFile.to_read(path)
    header = file.header()
    methods: Counter[str] = Counter()
    damage: Damage | None = None
    for found in file.records(header.end):
        if isinstance(found, Damage):
            damage = found
        else:
            methods[found.record.method.decode("ascii", "replace")] += 1
    file.close()
    if damage is not None:
        log.warning("the recording is damaged: only the part before the damage is replayed", file=path, why=str(damage))
    recorded = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(header.created_ms / 1000))
    log.info("replaying", file=path, since=recorded, results=methods.total(), methods=dict(sorted(methods.items())))
