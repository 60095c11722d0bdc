"""The files in the data directory. Imports only config."""

from __future__ import annotations

from pathlib import Path

from hms_cache_proxy.config import Config


def lock(config: Config) -> Path:
    """Held exclusively by the supervisor (flock), for as long as it or a child lives."""
    return Path(config.data_dir) / "lock"


def addresses(config: Config) -> Path:
    """Where the running proxy listens, as one JSON object: pid, listen, http, admin. Absent while none runs."""
    return Path(config.data_dir) / "addresses.json"


def state(config: Config) -> Path:
    """The state page: one mmap of counters that every process reads."""
    return Path(config.data_dir) / "state"


def cache(config: Config) -> Path:
    """The cache's LMDB environment; the follower writes."""
    return Path(config.data_dir) / "cache"


def uses(config: Config) -> Path:
    """When each table was last asked for; workers mark, the follower reads."""
    return Path(config.data_dir) / "uses"


def fences(config: Config) -> Path:
    """The LMDB environment of fences and tickets; every process writes."""
    return Path(config.data_dir) / "fences"


def ttl(config: Config) -> Path:
    """The LMDB environment of TTL mode, created at each start; every worker writes."""
    return Path(config.data_dir) / "ttl"


def metrics(config: Config) -> Path:
    """Files of prometheus_client, one per metric type and role; emptied at each start."""
    return Path(config.data_dir) / "metrics"


def follower_socket(config: Config) -> Path:
    """Datagram socket of the follower: any byte means "look now"."""
    return Path(config.data_dir) / "follower.sock"


def follower_report(config: Config) -> Path:
    """What the follower tells beyond the state page's counters: JSON, replaced as a whole."""
    return Path(config.data_dir) / "follower.json"


def not_followed(config: Config) -> Path:
    """There while the log was not followed since the cache was last known to be right (follower/mode.py)."""
    return Path(config.data_dir) / "not_followed"


def answers(config: Config) -> Path:
    """How the metastores' answers differed from what is stored when the cache was filled (follower/mode.py)."""
    return Path(config.data_dir) / "answers"


def access_log(config: Config, worker: int) -> Path:
    """The file that a worker writes its calls to; older ones have a number behind."""
    return Path(config.access_log.directory) / f"access-{worker}.jsonl"


def embedded_database(config: Config) -> str:
    """The URL of the embedded metastore's database: an SQLite file, where no other is set."""
    return config.metastore.url or f"sqlite:///{Path(config.data_dir).absolute()}/metastore/metastore.db"


def embedded_warehouse(config: Config, kind: str) -> Path:
    """The embedded metastore's directory of `managed` or `external` tables, where none is set."""
    return Path(config.data_dir).absolute() / "warehouse" / kind
