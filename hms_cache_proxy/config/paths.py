"""The files in the data directory. Imports only config."""

from __future__ import annotations

from pathlib import Path

from hms_cache_proxy.config import Config


def lock(config: Config) -> Path:
    """The lock file (flock); the supervisor and its children hold it as long as one of them lives."""
    return Path(config.data_dir) / "lock"


def addresses(config: Config) -> Path:
    """Where the running proxy listens, as one JSON object: pid, listen, http, admin. Absent while none runs."""
    return Path(config.data_dir) / "addresses.json"


def state(config: Config) -> Path:
    """The state page: one mmap of counters that every process reads."""
    return Path(config.data_dir) / "state"


def cache(config: Config) -> Path:
    """The LMDB environment of the cache; the follower writes it."""
    return Path(config.data_dir) / "cache"


def uses(config: Config) -> Path:
    """When each table was last requested; the workers write it, the follower reads it."""
    return Path(config.data_dir) / "uses"


def fences(config: Config) -> Path:
    """The LMDB environment of fences and tickets; every process writes it."""
    return Path(config.data_dir) / "fences"


def ttl(config: Config) -> Path:
    """The LMDB environment of TTL mode, created at each start; every worker writes it."""
    return Path(config.data_dir) / "ttl"


def token_key(config: Config) -> Path:
    """The key of delegation tokens that the proxy has made itself; mode 0600."""
    return Path(config.data_dir) / "token-key"


def cancelled_tokens(config: Config) -> Path:
    """Which delegation tokens were cancelled; every worker and the peers' process append to it."""
    return Path(config.data_dir) / "cancelled-tokens"


def metrics(config: Config) -> Path:
    """The files of prometheus_client, one per metric type and role; deleted at each start."""
    return Path(config.data_dir) / "metrics"


def follower_socket(config: Config) -> Path:
    """The follower's datagram socket; any byte wakes the follower."""
    return Path(config.data_dir) / "follower.sock"


def peers_socket(config: Config) -> Path:
    """Stream socket of the peers' process: workers ask whether writes may leave."""
    return Path(config.data_dir) / "peers.sock"


def peers_report(config: Config) -> Path:
    """What the peers' process tells of the other proxies: JSON, replaced as a whole."""
    return Path(config.data_dir) / "peers.json"


def tops(config: Config, worker: int) -> Path:
    """The tables and users that are asked for most, as a worker counts them: JSON, replaced as a whole."""
    return Path(config.data_dir) / f"tops-{worker}.json"


def worker_socket(config: Config, index: int) -> Path:
    """A worker's datagram socket; any byte on it says that a look which the worker asked for has ended."""
    return Path(config.data_dir) / f"worker-{index}.sock"


def changed_settings(config: Config) -> Path:
    """The configuration with the settings that were changed without a restart; absent if there are none."""
    return Path(config.data_dir) / "settings.json"


def follower_report(config: Config) -> Path:
    """What the follower reports beyond the counters of the state page: JSON, replaced as a whole."""
    return Path(config.data_dir) / "follower.json"


def not_followed(config: Config) -> Path:
    """Exists while the log has not been followed since the cache was last known to be right (follower/mode.py)."""
    return Path(config.data_dir) / "not_followed"


def answers(config: Config) -> Path:
    """How the metastores' answers differed from what is stored when the cache was filled (follower/mode.py)."""
    return Path(config.data_dir) / "answers"


def access_log(config: Config, worker: int) -> Path:
    """The file to which a worker writes its calls; older files have a number appended."""
    return Path(config.access_log.directory) / f"access-{worker}.jsonl"


def slow_log(config: Config, worker: int) -> Path:
    """The file to which a worker writes its slow calls; older files have a number appended."""
    return Path(config.slow_log.directory) / f"slow-{worker}.jsonl"


def audit_log(config: Config, worker: int) -> Path:
    """The file to which a worker writes its audit lines; older files have a number appended."""
    return Path(config.audit_log.directory) / f"audit-{worker}.jsonl"


def embedded_database(config: Config) -> str:
    """The URL of the embedded metastore's database; an SQLite file if none is set."""
    return config.metastore.url or f"sqlite:///{Path(config.data_dir).absolute()}/metastore/metastore.db"


def embedded_warehouse(config: Config, kind: str) -> Path:
    """The embedded metastore's default directory for `managed` or `external` tables."""
    return Path(config.data_dir).absolute() / "warehouse" / kind
