"""The settings: type, default, bounds and a one-line description of each, and the forms of their values.

A setting has one dotted key (`follower.poll_interval_max_ms`), the same in the TOML file, in error
messages and in the documentation. `Config` is frozen and picklable: it is loaded once and passed to every
child process. Secrets (`store_url`, `metastore.url`, `admin.token`) have `secret=True`, and `Config.shown()` masks
them, so they cannot get into a log. Import these names from hms_cache_proxy.config, which also loads the settings. Must
not know: where values come from, and what they are used for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, fields, replace
from typing import Annotated, Any, Literal, NamedTuple

from hms_cache_proxy.config.address import Address, parse_address, parse_upstream
from hms_cache_proxy.config.bridge import BridgeSection
from hms_cache_proxy.config.fields import Parsed, Section, parse_list, setting
from hms_cache_proxy.config.http_transport import HttpTransportSection, http_disagreements, upstream_disagreements
from hms_cache_proxy.config.logs import AccessLogSection, AuditLogSection, LogSection, SlowLogSection, TracesSection
from hms_cache_proxy.config.passwords import LdapSection, password_disagreements, takes_passwords
from hms_cache_proxy.config.peers import PEER_PORT, parse_peers, peer_problems
from hms_cache_proxy.config.protection import ProtectionSection
from hms_cache_proxy.config.security import (
    KerberosSection,
    SecuritySection,
    TlsSection,
    needs_of_users,
    passes_logins,
    security_disagreements,
)
from hms_cache_proxy.config.selection import Selection, check_pattern
from hms_cache_proxy.config.tokens import TokensSection, token_disagreements
from hms_cache_proxy.config.ttl import NEVER, Bytes, Seconds, TtlSection
from hms_cache_proxy.config.upstream import UpstreamOptionsSection
from hms_cache_proxy.config.urls import mask_url, masked, store_url_problem

ENV_PREFIX = "HMS_CACHE_PROXY_"


def _parse_upstreams(value: object) -> object:
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, list | tuple):
        raise ValueError("expected a list of thrift://HOST:PORT")
    return tuple(parse_upstream(item) for item in items if item != "")


def _check_patterns(value: object) -> object:
    items = parse_list(value)
    if isinstance(items, list | tuple):
        for item in items:
            check_pattern(str(item))
    return items


_AddressField = Annotated[Address, Parsed(parse_address)]
_Upstreams = Annotated[tuple[Address, ...], Parsed(_parse_upstreams)]
_Names = Annotated[tuple[str, ...], Parsed(parse_list)]
_Peers = Annotated[tuple[str, ...], Parsed(parse_peers)]
_Patterns = Annotated[tuple[str, ...], Parsed(_check_patterns)]


@dataclass(frozen=True)
class CacheSection(Section):
    max_bytes: Bytes = setting(
        8 << 30, ge=1 << 20, description="Size above which the least recently used tables are evicted."
    )
    pin: _Patterns = setting(
        (), description="Tables that are never evicted, as patterns like those of `include`; others are evicted."
    )


@dataclass(frozen=True)
class RepliesSection(Section):
    max_bytes: Bytes = setting(256 << 20, ge=0, description="Memory for encoded replies, in each worker.")
    max_entry_bytes: Bytes = setting(16 << 20, ge=0, description="Size of the largest reply that is kept.")
    statistics_bytes: Bytes = setting(
        64 << 20,
        ge=0,
        description="Memory for column statistics of partitions that are aggregated often, in each worker.",
    )
    filter_index_bytes: Bytes = setting(
        64 << 20,
        ge=0,
        description="Memory for an index of the partition keys of large tables, in each worker; 0 = no index.",
    )


@dataclass(frozen=True)
class FollowerSection(Section):
    poll_interval_min_ms: int = setting(20, ge=1, le=60_000, description="Shortest pause between two steps, when busy.")
    poll_interval_max_ms: int = setting(
        125,
        ge=1,
        le=600_000,
        description="Longest pause between two steps, when idle; two fifths of it for a minute after events or reads.",
    )
    revalidate_interval_s: float = setting(
        3600, ge=0, description="How often all tables are checked for changes that write no event; 0 = never."
    )
    prewarm_chunk: int = setting(10_000, ge=1, description="Partitions (or tables) that one step of prewarm loads.")
    hung_after_s: float = setting(
        120, ge=5, description="A follower that shows no sign of life for this long is killed and restarted."
    )


@dataclass(frozen=True)
class LimitsSection(Section):
    max_message_bytes: Bytes = setting(100 << 20, ge=1024, description="Longest request that a client may send.")
    max_string_bytes: Bytes = setting(100 << 20, ge=1024, description="Longest string in a message.")
    max_connections: int = setting(5_000, ge=1, description="Maximum client connections of all workers together.")
    max_connections_per_address: int = setting(
        0, ge=0, description="Maximum client connections from one address to one worker; 0 = no limit."
    )
    memory_bytes: Bytes = setting(
        128 << 20, ge=1 << 20, description="Memory for requests and replies in progress, in each worker."
    )
    spool_bytes: Bytes = setting(
        2 << 30, ge=1 << 20, description="Disk space for long requests and replies in progress, in each worker."
    )
    idle_timeout_s: float = setting(
        86_400, ge=0, description="A client connection that is idle for longer is closed; 0 = never."
    )


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
        description="Directory to which the files of dropped tables and partitions are moved (to `Current/PATH` in it,"
        " like Hadoop's trash) unless they are purged; empty: they are deleted. The metastore never empties it.",
    )
    transformer: bool = setting(
        True,
        description="Create and show tables as Hive 4's default transformer does, which makes plain managed tables"
        " external; false: leave tables as they are.",
    )
    partition_limit: int = setting(
        -1,
        ge=-1,
        description="Maximum partitions in one listing; a larger one is refused (`metastore.limit.partition.request`);"
        " -1 = no limit.",
    )
    delete_shared_directories: bool = setting(
        False,
        description="Delete, empty and move directories even where other objects live in them, as Hive does; false:"
        " such directories are kept, and a truncation that would empty one is refused.",
    )
    foreign_database: bool = setting(
        False, description="Use `metastore.url` even if Hive created the database and its metastore may write to it."
    )


@dataclass(frozen=True)
class AdminSection(Section):
    listen: _AddressField = setting(Address("127.0.0.1", 9085), description="Address of POST /admin/flush.")
    token: str = setting("", secret=True, description="Bearer token for the admin address; required beyond loopback.")
    token_file: str = setting("", description="A file with the token, instead of `admin.token`.")
    show_users: bool = setting(
        False,
        description="Whether the status page names the users that are asking most. Whoever reaches `http` can read it.",
    )


@dataclass(frozen=True)
class Config(Section):
    """Every setting; see `conf/hms-cache-proxy.toml` and docs/configuration.md."""

    listen: _AddressField = setting(Address("0.0.0.0", 9083), description="Address for Thrift clients.")
    http: _AddressField = setting(
        Address("0.0.0.0", 9084), description="Address for metrics, health, status and status page."
    )
    upstream: _Upstreams = setting(
        (), description="The metastores, all of one database, tried in this order (`upstream_options.choice`)."
    )
    embedded: bool = setting(
        False, description="Start the embedded metastore, and use it as the upstream; see `metastore`."
    )
    store: Literal["auto", "sql", "thrift", "none"] = setting(
        "auto",
        description="Where the cache is read from: the backing database (sql), the metastore itself (thrift), or"
        " nowhere (none); auto: sql if there is a store_url or `embedded` is set, else thrift (Hive 3.1 and 4). Hive"
        " 2.3 is followed only on PostgreSQL, unless `store` is sql or thrift.",
    )
    store_url: str = setting(
        "",
        secret=True,
        description="SQLAlchemy URL of the backing database, with a SELECT-only account; not needed with `embedded`.",
    )
    store_url_file: str = setting("", description="A file with the URL, instead of `store_url`.")
    bootstrap: str = setting(
        "",
        description="URI of a snapshot, or of a directory of published snapshots, to fill an empty cache from; needs"
        " store_url.",
    )
    data_dir: str = setting("./hms-cache-proxy-data", description="Directory for cache and all state; must be local.")
    workers: int = setting(0, ge=0, le=256, description="Worker processes; 0 = usable cores.")
    worker_hung_after_s: float = setting(
        30, ge=2, description="A worker whose event loop is stuck for this long is killed and restarted."
    )
    consistency: Literal["eventual", "session", "bounded", "strict"] = setting(
        "session", description="How recent an answer must be; see the four modes in docs/operations.md."
    )
    max_staleness_ms: int | None = setting(
        None, ge=1, description="With consistency = bounded: maximum age of an answer from the cache."
    )
    transactional_reads: Literal["passthrough", "strict", "eventual", "reject"] = setting(
        "strict",
        description="Reads of transactional tables without a proof: answer after a look at the database, or ask the"
        " metastore; without a ValidWriteIdList also: answer as of the last step, or refuse.",
    )
    max_unconfirmed_ms: int = setting(
        10_000, ge=100, description="The cache stops answering if the follower has not confirmed it for this long."
    )
    serve_stale: Seconds = setting(
        0,
        ge=0,
        le=366 * 86_400,
        description="Maximum age of unconfirmed answers while neither a metastore nor the database can be reached; 0 ="
        " no such answers. Reads with a ValidWriteIdList are never answered so.",
    )
    authorization: Literal["auto", "none", "learned", "per_user", "relay"] = setting(
        "auto", description="Whether the metastore's answers depend on who asks; see docs/security.md."
    )
    authorization_ttl_s: Seconds = setting(
        60,
        gt=0,
        le=86_400,
        description="With authorization = learned: how long a user gets the cache's answers after the metastore has"
        " given the same one.",
    )
    list_order: Literal["metastore", "name"] = setting(
        "metastore", description="Order of lists that Hive does not sort: the metastore's own, as seen, or by name."
    )
    cache_absent: bool = setting(
        True, description="Whether the cache answers for objects known not to exist; false: the metastore is asked."
    )
    include: _Patterns = setting(
        (), description="What may be cached, as `db.table` globs or `re:` patterns; empty = all."
    )
    exclude: _Patterns = setting((), description="What is never cached; takes precedence over `include`.")
    peers: _Peers = setting(
        (),
        description="The peer_listen addresses of all proxies of this metastore, this one too, as `HOST:PORT`, or"
        " `dns+NAME:PORT` for all addresses of a name: what was written through one of them is seen through all.",
    )
    peer_listen: _AddressField = setting(
        Address("0.0.0.0", PEER_PORT), description="Address where other proxies connect; used with `peers`."
    )
    peer_secret: str = setting("", secret=True, description="What all `peers` know; required beyond loopback.")
    peer_secret_file: str = setting("", description="A file with the secret, instead of `peer_secret`.")
    read_methods: _Names = setting(
        (),
        description="Methods of a vendor's metastore that Hive does not have and that change nothing. Any other unknown"
        " method counts as a write to everything.",
    )
    record: str = setting("", description="Record every read and its result in this file: docs/recording.md.")
    record_for: Seconds = setting(
        0, ge=0, description="How long to record, from the start of the proxy; 0 = until it stops."
    )
    record_max_bytes: Bytes = setting(1 << 30, ge=1 << 16, description="Size of the file at which recording stops.")
    replay: str = setting(
        "", description="Answer from this recording alone: no upstream, store or TTL mode; writes are refused."
    )
    ready_when: Literal["relay", "prewarmed"] = setting("relay", description="When /readyz answers 200.")
    drain_timeout_s: float = setting(30, ge=0, description="Time for calls in progress to finish after SIGTERM.")
    cache: CacheSection = CacheSection()
    replies: RepliesSection = RepliesSection()
    ttl: TtlSection = TtlSection()
    follower: FollowerSection = FollowerSection()
    limits: LimitsSection = LimitsSection()
    upstream_options: UpstreamOptionsSection = UpstreamOptionsSection()
    protection: ProtectionSection = ProtectionSection()
    security: SecuritySection = SecuritySection()
    tls: TlsSection = TlsSection()
    kerberos: KerberosSection = KerberosSection()
    ldap: LdapSection = LdapSection()
    tokens: TokensSection = TokensSection()
    http_transport: HttpTransportSection = HttpTransportSection()
    bridge: BridgeSection = BridgeSection()
    admin: AdminSection = AdminSection()
    metastore: MetastoreSection = MetastoreSection()
    access_log: AccessLogSection = AccessLogSection()
    slow_log: SlowLogSection = SlowLogSection()
    audit_log: AuditLogSection = AuditLogSection()
    traces: TracesSection = TracesSection()
    log: LogSection = LogSection()

    @property
    def source(self) -> Literal["sql", "thrift", "none"]:
        """Where the cache is read from, with `auto` resolved."""
        if self.replay:
            return "none"
        if self.store == "auto":
            return "sql" if self.store_url else "thrift"
        return self.store

    def with_embedded(self, address: Address, database_url: str) -> Config:
        """These settings for the children, whose upstream is the embedded metastore at `address`."""
        return replace(self.with_embedded_store(database_url), embedded=False, upstream=(address,))

    def with_embedded_store(self, database_url: str) -> Config:
        """These settings; the store is the embedded metastore's database, unless `store` or `store_url` differs."""
        by_sql = self.store in ("auto", "sql") and not self.store_url and not store_url_problem(database_url)
        return replace(self, store_url=database_url) if by_sql else self

    def with_replay(self) -> Config:
        """These settings, without those that a replay does not use."""
        return replace(self, upstream=(), ttl=TtlSection(), ready_when="relay")

    @property
    def selection(self) -> Selection:
        """Which tables `include` and `exclude` admit to the cache."""
        return Selection(self.include, self.exclude)

    def shown(self) -> dict[str, Any]:
        """All settings as plain values, with secrets masked, for `check-config` and logs."""
        values: dict[str, Any] = _plain(self, _written)
        values["upstream"] = [address.uri for address in self.upstream]
        values["store_url"] = masked(self.store_url)
        values["metastore"]["url"] = masked(self.metastore.url)
        values["peer_secret"] = "***" if self.peer_secret else ""
        values["admin"]["token"] = "***" if self.admin.token else ""
        return values


def disagreements(config: Config) -> Iterator[tuple[str, str]]:
    """Keys whose values contradict each other, and why."""
    yield from _general_disagreements(config)
    yield from _disagreements_about_users(config)
    yield from _disagreements_about_addresses(config)


def _general_disagreements(config: Config) -> Iterator[tuple[str, str]]:
    if (config.max_staleness_ms is not None) != (config.consistency == "bounded"):
        yield "max_staleness_ms", "is required with consistency = bounded, and has no meaning without it"
    if config.max_staleness_ms is not None and config.max_staleness_ms > config.max_unconfirmed_ms:
        yield "max_staleness_ms", "must not be larger than max_unconfirmed_ms"
    if config.embedded and config.upstream:
        yield "upstream", "has no meaning with embedded = true: the embedded metastore is the upstream"
    if config.authorization == "learned" and config.ttl.enabled:
        yield "authorization", "learned needs a log that is followed; with ttl.enabled, see ttl.impersonation"
    if config.serve_stale and config.consistency == "strict":
        yield "serve_stale", "has no meaning with consistency = strict"
    if config.replay and config.record:
        yield "record", "cannot be used with replay: its answers are already recorded"
    if config.replay and config.embedded:
        yield "replay", "cannot be used with embedded = true: a replay answers from a file, without a metastore"
    if config.ready_when == "prewarmed" and config.store == "none" and not config.replay:
        yield (
            "ready_when",
            "cannot be prewarmed with store = none: nothing is loaded, and /readyz would never answer 200",
        )
    if config.record_for and not config.record:
        yield "record_for", "has no meaning without record"
    with_database = bool(config.store_url or config.store_url_file or config.embedded)
    if config.bootstrap and not (with_database and config.store in ("auto", "sql") and not config.replay):
        yield "bootstrap", "needs a store_url: from the snapshot's event on, the log is followed in the database"
    if config.store == "sql" and not with_database:
        yield "store_url", "is required with store = sql"
    if config.follower.poll_interval_min_ms > config.follower.poll_interval_max_ms:
        yield "follower.poll_interval_min_ms", "must not be larger than follower.poll_interval_max_ms"
    if not config.admin.listen.loopback and not (config.admin.token or config.admin.token_file):
        yield "admin.token", f"is required: admin.listen = {config.admin.listen} is not a loopback address"


def _disagreements_about_users(config: Config) -> Iterator[tuple[str, str]]:
    """How clients and metastores know who calls, and how connections are secured."""
    yield from security_disagreements(
        config.security, config.tls, config.kerberos, passwords=takes_passwords(config.security, config.ldap)
    )
    yield from password_disagreements(config.security, config.kerberos, config.ldap)
    yield from token_disagreements(config.security, config.kerberos, config.tokens)
    yield from http_disagreements(config.security, config.http_transport)
    nearby = all(address.loopback for address in config.upstream)
    yield from upstream_disagreements(
        config.security, config.tls, config.kerberos, config.http_transport, loopback=nearby
    )
    if passes_logins(config.security, config.kerberos):
        yield from needs_of_users(config.authorization, config.ttl.impersonation)
    for section in ("tls", "kerberos", "http_transport"):
        if getattr(config, section).upstream and (config.embedded or config.replay):
            yield f"{section}.upstream", f"has no meaning with {'embedded = true' if config.embedded else 'replay'}"


def _disagreements_about_addresses(config: Config) -> Iterator[tuple[str, str]]:
    addresses = (config.listen, config.http, config.admin.listen, *((config.peer_listen,) if config.peers else ()))
    ports = [address.port for address in addresses if address.port]
    if len(set(ports)) < len(ports):
        names = "listen, http, admin.listen and peer_listen" if config.peers else "listen, http and admin.listen"
        yield "http", f"{names} need {'four' if config.peers else 'three'} different ports"
    if config.peers:
        secret = bool(config.peer_secret or config.peer_secret_file)
        cached = config.source != "none" and not config.ttl.enabled
        yield from peer_problems(config.peers, config.peer_listen, secret=secret, cached=cached)


class Setting(NamedTuple):
    """One row of the reference: a dotted key, its default, its environment variable and a one-line description."""

    key: str
    default: Any
    env: str
    description: str


def settings(model: type[Section] = Config, prefix: str = "") -> Iterator[Setting]:
    """Every setting, in the order of the file: the source of the documentation and the environment variables."""
    for each in fields(model):  # type: ignore[arg-type]  # a dataclass, like every Section
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
    """The settings for another process, including the secrets."""
    return json.dumps(_plain(config, _tagged, named=True)).encode()


def from_json(text: str | bytes) -> Config:
    """The settings that `to_json` wrote. They are not validated again."""
    classes: dict[str, Any] = {"Address": Address, **{each.__name__: each for each in Section.__subclasses__()}}

    def made(values: dict[str, Any]) -> Any:
        values = {name: tuple(item) if isinstance(item, list) else item for name, item in values.items()}
        return classes[values.pop(_CLASS)](**values) if _CLASS in values else values

    config = json.loads(text, object_hook=made)
    assert isinstance(config, Config)
    return config


_CLASS = "class"


def _plain(value: Any, leaf: Callable[[Any], Any], *, named: bool = False) -> Any:
    """Sections as dicts, with the names of their classes if `named`; tuples as lists; others as `leaf` gives them."""
    if isinstance(value, Section):
        own = {each.name: _plain(getattr(value, each.name), leaf, named=named) for each in fields(value)}  # type: ignore[arg-type]
        return {_CLASS: type(value).__name__, **own} if named else own
    if isinstance(value, dict):
        return {name: _plain(item, leaf, named=named) for name, item in value.items()}
    if isinstance(value, tuple) and not isinstance(value, Address):
        return [_plain(item, leaf, named=named) for item in value]
    return leaf(value)


def _written(value: Any) -> Any:
    """As it is written in the file, but for passwords in URLs."""
    if isinstance(value, Address | str):
        return mask_url(str(value))
    return "never" if value == NEVER else value


def _tagged(value: Any) -> Any:
    return {_CLASS: "Address", **value._asdict()} if isinstance(value, Address) else value
