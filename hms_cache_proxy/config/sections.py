"""The settings themselves: types, defaults, bounds, one line about each, and how a value is written.

A setting has one dotted key (`follower.poll_interval_max_ms`), the same in the TOML file, in error
messages and in the documents. `Config` is frozen and picklable: it is loaded once and passed to every
process that is spawned. Secrets (`store_url`, `metastore.url`, `admin.token`) have `secret=True` and are masked by
`Config.shown()`, so that they cannot reach a log. Import these names from hms_cache_proxy.config, which
also loads them. This module must not know where values come from or what they are used for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, fields, replace
from typing import Annotated, Any, Literal, NamedTuple

from hms_cache_proxy.config.fields import Parsed, Section, setting
from hms_cache_proxy.config.selection import Selection, check_pattern
from hms_cache_proxy.config.ttl import NEVER, Bytes, Seconds, TtlSection
from hms_cache_proxy.config.urls import mask_url, store_url_problem

ENV_PREFIX = "HMS_CACHE_PROXY_"


class Address(NamedTuple):
    """A host and a port; `str()` gives `host:port`, with brackets around an IPv6 host."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def uri(self) -> str:
        return f"thrift://{self}"

    @property
    def loopback(self) -> bool:
        return self.host in ("localhost", "::1") or self.host.startswith("127.")


def parse_address(value: object) -> Address:
    """`HOST:PORT`, `[IPV6]:PORT` or `:PORT` (every interface); ValueError if it is none of them."""
    if isinstance(value, Address):
        return value
    host, colon, port = str(value).strip().rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535 or host.count(":") and host[0] + host[-1] != "[]":
        raise ValueError(f"{value!r} is not HOST:PORT")
    return Address(host.strip("[]") or "0.0.0.0", int(port))


def _parse_upstreams(value: object) -> object:
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, list | tuple):
        raise ValueError("expected a list of thrift://HOST:PORT")
    return tuple(parse_upstream(item) for item in items if item != "")


def parse_upstream(value: object) -> Address:
    """`thrift://HOST:PORT`, or without the scheme; ValueError if it is neither."""
    text = str(value).strip()
    if isinstance(value, Address):
        return value
    scheme, separator, rest = text.partition("://")
    if separator and scheme != "thrift":
        raise ValueError(f"{text!r}: only thrift://HOST:PORT is understood")
    address = parse_address(rest.rstrip("/") if separator else text)
    if address.port == 0:
        raise ValueError(f"{text!r} has no port")
    return address


def _parse_list(value: object) -> object:
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


def _check_patterns(value: object) -> object:
    items = _parse_list(value)
    if isinstance(items, list | tuple):
        for item in items:
            check_pattern(str(item))
    return items


_AddressField = Annotated[Address, Parsed(parse_address)]
_Upstreams = Annotated[tuple[Address, ...], Parsed(_parse_upstreams)]
_Names = Annotated[tuple[str, ...], Parsed(_parse_list)]
_Patterns = Annotated[tuple[str, ...], Parsed(_check_patterns)]


@dataclass(frozen=True)
class CacheSection(Section):
    max_bytes: Bytes = setting(
        8 << 30, ge=1 << 20, description="Size beyond which the tables leave that were asked for longest ago."
    )
    pin: _Patterns = setting(
        (), description="Tables that never leave for want of room, by patterns as in `include`; the others make way."
    )


@dataclass(frozen=True)
class RepliesSection(Section):
    max_bytes: Bytes = setting(256 << 20, ge=0, description="Memory for finished replies, in each worker.")
    max_entry_bytes: Bytes = setting(16 << 20, ge=0, description="A reply over this size is not kept.")
    statistics_bytes: Bytes = setting(
        64 << 20,
        ge=0,
        description="Memory for column statistics of partitions that are added up again and again, in each worker.",
    )
    filter_index_bytes: Bytes = setting(
        64 << 20,
        ge=0,
        description="Memory for where values of partition keys are in large tables, in each worker; 0 = no index.",
    )


@dataclass(frozen=True)
class FollowerSection(Section):
    poll_interval_min_ms: int = setting(
        20, ge=1, le=60_000, description="Shortest pause between two steps, while busy."
    )
    poll_interval_max_ms: int = setting(
        250, ge=1, le=600_000, description="Longest pause between two steps, when idle."
    )
    revalidate_interval_s: float = setting(
        3600, ge=0, description="How often all tables are looked at again, as some changes write no event; 0 = never."
    )
    prewarm_chunk: int = setting(10_000, ge=1, description="Partitions (or tables) that one step of prewarm loads.")
    hung_after_s: float = setting(
        120, ge=5, description="A follower that shows no life for so long is killed and restarted."
    )


@dataclass(frozen=True)
class LimitsSection(Section):
    max_message_bytes: Bytes = setting(100 << 20, ge=1024, description="Longest request that a client may send.")
    max_string_bytes: Bytes = setting(100 << 20, ge=1024, description="Longest string in a message.")
    max_connections: int = setting(5_000, ge=1, description="Client connections of all workers together.")
    max_connections_per_address: int = setting(
        0, ge=0, description="Client connections of one worker that may come from one address; 0 = any number."
    )
    memory_bytes: Bytes = setting(
        128 << 20, ge=1 << 20, description="Memory for requests and replies under way, in each worker."
    )
    spool_bytes: Bytes = setting(
        2 << 30, ge=1 << 20, description="Disk for requests and replies that wait, in each worker."
    )
    idle_timeout_s: float = setting(
        86_400, ge=0, description="A client that is silent for longer is closed; 0 = never."
    )


@dataclass(frozen=True)
class UpstreamOptionsSection(Section):
    connect_timeout_s: float = setting(
        5, gt=0, description="Time to connect to one metastore before the next is tried."
    )
    request_timeout_s: float = setting(
        600,
        gt=0,
        description="Longest time for an answer; a write of unknown outcome is fenced as long.",
    )
    idle_timeout_s: float = setting(
        30,
        ge=0,
        description="A client's connection to a metastore is closed after so long without a call; 0 = never. The next"
        " call makes another, and repeats the session calls on it.",
    )
    max_connections: int = setting(
        0,
        ge=0,
        description="Connections of one worker's clients to one metastore; further calls wait in their order; 0 = any"
        " number.",
    )
    queue_timeout_s: float = setting(
        10, gt=0, description="Time that a call waits for one of `max_connections` before it is an error."
    )

    @property
    def request_timeout_ns(self) -> int:
        """`request_timeout_s` for clocks in nanoseconds."""
        return int(self.request_timeout_s * 1e9)


@dataclass(frozen=True)
class MetastoreSection(Section):
    url: str = setting(
        "",
        secret=True,
        description="SQLAlchemy URL of the embedded metastore's own database: SQLite or PostgreSQL; empty: SQLite in"
        " data_dir.",
    )
    url_file: str = setting("", description="A file with the URL, instead of `metastore.url`.")
    warehouse_dir: str = setting(
        "", description="URI of the managed warehouse (transactional tables); empty: warehouse/managed in data_dir."
    )
    external_dir: str = setting(
        "", description="URI of the external warehouse (all other tables); empty: warehouse/external in data_dir."
    )
    trash: str = setting(
        "",
        description="Directory that the files of dropped tables and partitions are moved to (`Current/PATH` in it, as"
        " Hadoop's trash) unless they are purged; empty: they are removed. Nothing empties it.",
    )
    transformer: bool = setting(
        True,
        description="Create and show tables as Hive 4's default transformer does, which makes plain managed ones"
        " external; false: as they are given.",
    )
    partition_limit: int = setting(
        -1,
        ge=-1,
        description="Partitions that one listing may have; more are refused (`metastore.limit.partition.request`);"
        " -1: any number.",
    )
    delete_shared_directories: bool = setting(
        False,
        description="Remove, empty and move directories that other objects live in too, as Hive does; false: they are"
        " kept, and a truncation that would empty one is refused.",
    )
    foreign_database: bool = setting(
        False, description="Use `metastore.url` also where Hive made the database, and its metastore may write to it."
    )


@dataclass(frozen=True)
class AdminSection(Section):
    listen: _AddressField = setting(Address("127.0.0.1", 9085), description="Where POST /admin/flush is answered.")
    token: str = setting("", secret=True, description="Bearer token for the admin address; needed beyond loopback.")
    token_file: str = setting("", description="A file with the token, instead of `admin.token`.")


@dataclass(frozen=True)
class AccessLogSection(Section):
    directory: str = setting(
        "", description="Where each worker writes one line for each call (access-N.jsonl); empty: nowhere."
    )
    sample: float = setting(1.0, gt=0, le=1, description="Share of the calls that get a line.")
    max_bytes: Bytes = setting(256 << 20, ge=1 << 20, description="Size at which a worker begins a new file.")
    files: int = setting(
        4, ge=1, le=1000, description="Files that are kept of each worker, with the one being written."
    )


@dataclass(frozen=True)
class LogSection(Section):
    level: Literal["debug", "info", "warning", "error"] = setting("info", description="What is logged.")
    format: Literal["text", "json"] = setting("text", description="Lines for people, or one JSON object a line.")


@dataclass(frozen=True)
class Config(Section):
    """Every setting; see `conf/hms-cache-proxy.toml` and docs/configuration.md."""

    listen: _AddressField = setting(Address("0.0.0.0", 9083), description="Where Thrift clients connect.")
    http: _AddressField = setting(Address("0.0.0.0", 9084), description="Metrics, health, status and the status page.")
    upstream: _Upstreams = setting((), description="The metastores (of one database), tried in this order.")
    embedded: bool = setting(
        False, description="Start a metastore of this package's own, and use it as the upstream; see `metastore`."
    )
    store: Literal["auto", "sql", "thrift", "none"] = setting(
        "auto",
        description="Where the cache is read from: the backing database, or the metastore itself; auto: sql if there"
        " is a store_url or `embedded` is set, else thrift (Hive 3.1 and 4; 2.3 only on PostgreSQL or if asked for).",
    )
    store_url: str = setting(
        "",
        secret=True,
        description="SQLAlchemy URL of the backing database, a SELECT-only account; with `embedded` its own, if empty.",
    )
    store_url_file: str = setting("", description="A file with the URL, instead of `store_url`.")
    bootstrap: str = setting(
        "",
        description="URI of a snapshot, or of a directory of published ones, from which an empty cache is filled; needs"
        " store_url.",
    )
    data_dir: str = setting("./hms-cache-proxy-data", description="Cache, fences, lock; a local file system.")
    workers: int = setting(0, ge=0, le=256, description="Worker processes; 0 = usable cores.")
    worker_hung_after_s: float = setting(
        30, ge=2, description="A worker whose event loop stands still for so long is killed and restarted."
    )
    consistency: Literal["eventual", "session", "bounded", "strict"] = setting(
        "session", description="What a reader may see; docs/operations.md explains the four."
    )
    max_staleness_ms: int | None = setting(
        None, ge=1, description="With consistency = bounded: the oldest answer that is served from cache."
    )
    transactional_reads: Literal["passthrough", "eventual", "reject"] = setting(
        "passthrough",
        description="Reads of transactional tables without a ValidWriteIdList: ask the metastore, answer as of the last"
        " step, or refuse.",
    )
    max_unconfirmed_ms: int = setting(
        10_000, ge=100, description="Nothing is served that the follower has not confirmed for this long."
    )
    serve_stale: Seconds = setting(
        0,
        ge=0,
        le=366 * 86_400,
        description="How old an answer may be that nobody confirms, while neither a metastore nor the database can be"
        " reached; 0 = none is given. Reads that bring a ValidWriteIdList are not answered.",
    )
    authorization: Literal["auto", "none", "per_user", "relay"] = setting(
        "auto", description="Whether the metastore's answers depend on who asks."
    )
    list_order: Literal["metastore", "name"] = setting(
        "metastore", description="Order of lists that the metastore leaves unordered: its own as seen, or by name."
    )
    cache_absent: bool = setting(
        True, description="Whether the cache answers for what is known not to exist; else the metastore is asked."
    )
    include: _Patterns = setting(
        (), description="What may be cached, as `db.table` globs or `re:` patterns; empty = all."
    )
    exclude: _Patterns = setting((), description="What is never cached but relayed; wins over `include`.")
    read_methods: _Names = setting(
        (),
        description="Methods of a vendor's metastore, unknown to Hive, that change nothing: other unknown ones count as"
        " writes to everything.",
    )
    record: str = setting(
        "", description="Keep every read's result, with its request, in this file: docs/recording.md."
    )
    record_for: Seconds = setting(
        0, ge=0, description="How long, from the start of the proxy; 0 = until it is stopped."
    )
    record_max_bytes: Bytes = setting(1 << 30, ge=1 << 16, description="Size of the file at which recording stops.")
    replay: str = setting(
        "", description="Answer from this recording alone: no upstream, store or TTL mode is used, writes are refused."
    )
    ready_when: Literal["relay", "prewarmed"] = setting("relay", description="When /readyz says 200.")
    drain_timeout_s: float = setting(30, ge=0, description="Time for running calls to end after SIGTERM.")
    cache: CacheSection = CacheSection()
    replies: RepliesSection = RepliesSection()
    ttl: TtlSection = TtlSection()
    follower: FollowerSection = FollowerSection()
    limits: LimitsSection = LimitsSection()
    upstream_options: UpstreamOptionsSection = UpstreamOptionsSection()
    admin: AdminSection = AdminSection()
    metastore: MetastoreSection = MetastoreSection()
    access_log: AccessLogSection = AccessLogSection()
    log: LogSection = LogSection()

    @property
    def source(self) -> Literal["sql", "thrift", "none"]:
        """Where the cache is read from, `auto` decided."""
        if self.replay:
            return "none"
        if self.store == "auto":
            return "sql" if self.store_url else "thrift"
        return self.store

    def with_embedded(self, address: Address, database_url: str) -> Config:
        """These settings as the children get them, with the embedded metastore, which listens there, as upstream."""
        return replace(self.with_embedded_store(database_url), embedded=False, upstream=(address,))

    def with_embedded_store(self, database_url: str) -> Config:
        """The cache is read from the embedded metastore's database, unless `store` or `store_url` says otherwise."""
        by_sql = self.store in ("auto", "sql") and not self.store_url and not store_url_problem(database_url)
        return replace(self, store_url=database_url) if by_sql else self

    def with_replay(self) -> Config:
        """These settings without all that a replay does not use."""
        return replace(self, upstream=(), ttl=TtlSection(), ready_when="relay")

    @property
    def selection(self) -> Selection:
        """Which tables `include` and `exclude` admit to the cache."""
        return Selection(self.include, self.exclude)

    def shown(self) -> dict[str, Any]:
        """All settings as plain values, secrets masked: for `check-config` and logs."""
        values: dict[str, Any] = _plain(self, _written)
        values["upstream"] = [address.uri for address in self.upstream]
        values["store_url"] = mask_url(self.store_url)
        values["metastore"]["url"] = mask_url(self.metastore.url)
        values["admin"]["token"] = "***" if self.admin.token else ""
        return values


def disagreements(config: Config) -> Iterator[tuple[str, str]]:
    """Keys whose values do not go together, and why."""
    if (config.max_staleness_ms is not None) != (config.consistency == "bounded"):
        yield "max_staleness_ms", "is needed with consistency = bounded, and means nothing without it"
    if config.max_staleness_ms is not None and config.max_staleness_ms > config.max_unconfirmed_ms:
        yield "max_staleness_ms", "may not be larger than max_unconfirmed_ms"
    if config.embedded and config.upstream:
        yield "upstream", "means nothing with embedded = true: the embedded metastore is the upstream"
    if config.serve_stale and config.consistency == "strict":
        yield "serve_stale", "means nothing with consistency = strict"
    if config.replay and config.record:
        yield "record", "means nothing with replay: what is replayed was recorded"
    if config.replay and config.embedded:
        yield "replay", "means nothing with embedded = true: it is answered from a file, not from a metastore"
    if config.bootstrap and config.source != "sql" and not config.store_url_file and not config.embedded:
        yield "bootstrap", "needs a store_url: the log is followed from the snapshot's event in the database"
    if config.store == "sql" and not (config.store_url or config.store_url_file or config.embedded):
        yield "store_url", "is needed with store = sql"
    if config.follower.poll_interval_min_ms > config.follower.poll_interval_max_ms:
        yield "follower.poll_interval_min_ms", "may not be larger than follower.poll_interval_max_ms"
    if not config.admin.listen.loopback and not (config.admin.token or config.admin.token_file):
        yield "admin.token", f"is needed: admin.listen = {config.admin.listen} is beyond loopback"
    ports = [a.port for a in (config.listen, config.http, config.admin.listen) if a.port]
    if len(set(ports)) < len(ports):
        yield "http", "listen, http and admin.listen need three different ports"


class Setting(NamedTuple):
    """One row of the reference: a dotted key, its default, its environment variable and one line about it."""

    key: str
    default: Any
    env: str
    description: str


def settings(model: type[Section] = Config, prefix: str = "") -> Iterator[Setting]:
    """Every setting in the order of the file; the documents and the environment are read by it."""
    for each in fields(model):  # type: ignore[arg-type]  # a dataclass, as every Section
        default = each.default if each.default_factory is MISSING else each.default_factory()
        if isinstance(default, Section):
            yield from settings(type(default), f"{prefix}{each.name}.")
        else:
            key = prefix + each.name
            yield Setting(key, default, env_name(key), each.metadata["description"])


def env_name(key: str) -> str:
    """`cache.max_bytes` -> `HMS_CACHE_PROXY_CACHE_MAX_BYTES`."""
    return ENV_PREFIX + key.replace(".", "_").upper()


def to_json(config: Config) -> bytes:
    """The settings for another process, secrets and all."""
    return json.dumps(_plain(config, _tagged, named=True)).encode()


def from_json(text: str | bytes) -> Config:
    """The settings that `to_json` wrote, which were validated there."""
    classes: dict[str, Any] = {"Address": Address, **{each.__name__: each for each in Section.__subclasses__()}}

    def made(values: dict[str, Any]) -> Any:
        values = {name: tuple(item) if isinstance(item, list) else item for name, item in values.items()}
        return classes[values.pop(_CLASS)](**values) if _CLASS in values else values

    config = json.loads(text, object_hook=made)
    assert isinstance(config, Config)
    return config


_CLASS = "class"


def _plain(value: Any, leaf: Callable[[Any], Any], *, named: bool = False) -> Any:
    """Sections as dicts, with their classes if `named`; tuples as lists; and what `leaf` makes of the rest."""
    if isinstance(value, Section):
        own = {each.name: _plain(getattr(value, each.name), leaf, named=named) for each in fields(value)}  # type: ignore[arg-type]
        return {_CLASS: type(value).__name__, **own} if named else own
    if isinstance(value, dict):
        return {name: _plain(item, leaf, named=named) for name, item in value.items()}
    if isinstance(value, tuple) and not isinstance(value, Address):
        return [_plain(item, leaf, named=named) for item in value]
    return leaf(value)


def _written(value: Any) -> Any:
    """As in the file."""
    return str(value) if isinstance(value, Address) else "never" if value == NEVER else value


def _tagged(value: Any) -> Any:
    return {_CLASS: "Address", **value._asdict()} if isinstance(value, Address) else value
