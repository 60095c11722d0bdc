"""What a metastore says about itself: version, database, notification log, and settings that change its answers.

Job: ask one metastore, over a service connection, for everything that decides which of its answers may be cached, and
find out which settings are not Hive's defaults. Used by the doctor and by the follower's examiner. It must not know
what is concluded from the facts. Settings are requested by their old names (`hive.metastore.*`), which every version
since 2.3 knows; 2.3 refuses the new names (`metastore.*`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hms_cache_proxy.errors import UpstreamError
from hms_cache_proxy.upstream.answer_differences import AnswerDifferences
from hms_cache_proxy.upstream.serdes import with_stored_columns
from hms_cache_proxy.upstream.service import Declared, ServiceConnection, UnknownMethod

FILTER_HOOK = "hive.metastore.filter.hook"
PRE_LISTENERS = "hive.metastore.pre.event.listeners"
AUTHORIZERS = "hive.security.metastore.authorization.manager"  # of AuthorizationPreEventListener
SERVER_FILTER = "metastore.server.filter.enabled"  # Hive 4; there is no old name
RAW_STORE = "hive.metastore.rawstore.impl"
TRANSACTIONAL_LISTENERS = "hive.metastore.transactional.event.listeners"
LISTENERS = "hive.metastore.event.listeners"
PARTITION_LIMIT = "hive.metastore.limit.partition.request"
DIRECT_SQL = "hive.metastore.try.direct.sql"
DIRECT_SQL_IN_TRANSACTIONS = "hive.metastore.try.direct.sql.ddl"
PARTITION_ORDER = "hive.metastore.partition.order.expr"  # Hive 4
TRANSFORMER = "metastore.metadata.transformer.class"  # Hive 4; there is no old name
BIT_VECTORS = "hive.stats.fetch.bitvector"
HISTOGRAMS = "hive.stats.fetch.kll"
TRANSACTIONAL_STATISTICS = "hive.txn.stats.enabled"
SCHEMA_SERDES = "hive.serdes.using.metastore.for.schema"
DENSITIES = "hive.metastore.stats.ndv.densityfunction"
TUNER = "hive.metastore.stats.ndv.tuner"
AGGREGATES_CACHE = "hive.metastore.aggregate.stats.cache.enabled"
BATCHES = "hive.metastore.direct.sql.batch.size"
EXPRESSIONS = "hive.metastore.expression.proxy"
DEFAULT_PARTITION = "metastore.default.partition.name"  # Hive 4; needed only for what the cache answers as Hive 4
CATALOG = "metastore.catalog.default"  # Hive 3 and later; there is no old name
LOG_RETENTION = "hive.metastore.event.db.listener.timetolive"

_DEFAULTS = {
    FILTER_HOOK: ("org.apache.hadoop.hive.metastore.DefaultMetaStoreFilterHookImpl",),
    PRE_LISTENERS: ("",),
    AUTHORIZERS: ("org.apache.hadoop.hive.ql.security.authorization.DefaultHiveMetastoreAuthorizationProvider",),
    SERVER_FILTER: ("false",),
    RAW_STORE: ("org.apache.hadoop.hive.metastore.ObjectStore",),
    TRANSACTIONAL_LISTENERS: ("",),
    LISTENERS: ("",),
    SCHEMA_SERDES: ("",),
    LOG_RETENTION: ("1d", "86400s"),
    PARTITION_LIMIT: ("-1",),
    DIRECT_SQL: ("true",),
    DIRECT_SQL_IN_TRANSACTIONS: ("true",),
    PARTITION_ORDER: ('"PART_NAME" asc',),
    BIT_VECTORS: ("false",),
    HISTOGRAMS: ("false",),
    TRANSACTIONAL_STATISTICS: ("true",),
    DENSITIES: ("false",),
    TUNER: ("0.0", "0"),
    AGGREGATES_CACHE: ("false",),
    BATCHES: ("0", "-1"),
    EXPRESSIONS: ("org.apache.hadoop.hive.ql.optimizer.ppr.PartitionExpressionForMetastore",),
    DEFAULT_PARTITION: ("__HIVE_DEFAULT_PARTITION__",),
    CATALOG: ("hive",),
    TRANSFORMER: ("org.apache.hadoop.hive.metastore.MetastoreDefaultTransformer",),
}
_BY_TABLE = frozenset(
    "org.apache.hadoop.hive.metastore.DefaultMetaStoreFilterHookImpl"
    " org.apache.hadoop.hive.ql.security.authorization.AuthorizationPreEventListener"
    " org.apache.hadoop.hive.ql.security.authorization.plugin.AuthorizationMetaStoreFilterHook"
    " org.apache.hadoop.hive.ql.security.authorization.plugin.metastore.HiveMetaStoreAuthorizer".split()
)
"""Hooks and listeners that show a user a table, or do not, and no part of it alone. Ranger works through the last."""
_BY_RIGHTS = frozenset(
    "org.apache.hadoop.hive.ql.security.authorization.DefaultHiveMetastoreAuthorizationProvider"
    " org.apache.hadoop.hive.ql.security.authorization.StorageBasedAuthorizationProvider".split()
)
"""Authorizers that ask only for privileges on the object itself, on its database, and on everything; or for none."""
_RIGHTS_LISTENERS = frozenset(("org.apache.hadoop.hive.ql.security.authorization.AuthorizationPreEventListener",))
_NOTIFICATION_LISTENER = ".DbNotificationListener"
_NOT_SET = b"\x01not set"


@dataclass(frozen=True, slots=True)
class UpstreamFacts:
    """`settings` has a value for each name above; None if this metastore refuses to return it."""

    uri: str
    version: str  # Hive 2.3 returns 3.0, the version of its protocol
    database_uuid: str | None  # None: 2.3, which has none
    event_id: int | None
    event_id_problem: str | None  # why event_id is None: the proxy may not use the notification API
    settings: Mapping[str, str | None]

    @property
    def restrictions(self) -> dict[str, str | None]:
        """Settings that may make answers depend on the user: not Hive's defaults, or unknown."""
        names = (FILTER_HOOK, PRE_LISTENERS, SERVER_FILTER)
        return {name: self.settings[name] for name in names if self.settings[name] not in _DEFAULTS[name]}

    @property
    def lists_differ(self) -> bool:
        """Lists of partitions are limited in size, are cut off in another order than that of names, or are read by the
        ORM, which returns more fields of their serdes."""
        names = (PARTITION_LIMIT, PARTITION_ORDER, DIRECT_SQL, DIRECT_SQL_IN_TRANSACTIONS)
        return any(self.settings[name] not in _DEFAULTS[name] for name in names)

    @property
    def names_differ(self) -> bool:
        """Partitions are read by their names in batches: each batch is in order, the list is not. 4.2.0 lists each
        partition once for each batch."""
        return self.settings[BATCHES] not in _DEFAULTS[BATCHES]

    @property
    def shapes_differ(self) -> bool:
        """Clients that send their capabilities get other answers than from Hive's own transformer."""
        return self.settings[TRANSFORMER] not in _DEFAULTS[TRANSFORMER]

    @property
    def statistics_differ(self) -> bool:
        """Column statistics include bit vectors or histograms, are read by the ORM, or are never valid in transactional
        tables."""
        names = (BIT_VECTORS, HISTOGRAMS, DIRECT_SQL, TRANSACTIONAL_STATISTICS)
        return any(self.settings[name] not in _DEFAULTS[name] for name in names)

    @property
    def columns_differ(self) -> bool:
        """Tables of the usual serdes may have other columns than are stored."""
        listed = (self.settings[SCHEMA_SERDES] or "").encode().split(b",")
        return not with_stored_columns(self.version) <= {serde.strip() for serde in listed}

    @property
    def aggregates_differ(self) -> bool:
        """Aggregates are estimated differently, computed in batches of partitions, or come from a cache in the
        metastore."""
        names = (DENSITIES, TUNER, AGGREGATES_CACHE, BATCHES)
        return self.statistics_differ or any(self.settings[name] not in _DEFAULTS[name] for name in names)

    @property
    def expressions_differ(self) -> bool:
        """Expressions over partitions are evaluated by another class than Hive's own, or the default partition has
        another name."""
        return any(self.settings[name] not in _DEFAULTS[name] for name in (EXPRESSIONS, DEFAULT_PARTITION))

    @property
    def parts_differ(self) -> bool:
        """A hook may hide single partitions or columns of a table from a user; Hive's own decide by table."""
        hooks = (self.settings[name] for name in (FILTER_HOOK, PRE_LISTENERS))
        return not all(hook is not None and _classes(hook) <= _BY_TABLE for hook in hooks)

    @property
    def rights_differ(self) -> bool:
        """A privilege on one database or table may change what a user sees of others."""
        hook, listeners, authorizers = (self.settings[name] for name in (FILTER_HOOK, PRE_LISTENERS, AUTHORIZERS))
        if hook not in _DEFAULTS[FILTER_HOOK] or listeners is None or authorizers is None:
            return True
        return not (_classes(listeners) <= _RIGHTS_LISTENERS and _classes(authorizers) <= _BY_RIGHTS)

    @property
    def differs(self) -> AnswerDifferences:
        """All of the above."""
        found = {
            AnswerDifferences.LISTS: self.lists_differ,
            AnswerDifferences.SHAPES: self.shapes_differ,
            AnswerDifferences.STATISTICS: self.statistics_differ,
            AnswerDifferences.COLUMNS: self.columns_differ,
            AnswerDifferences.AGGREGATES: self.aggregates_differ,
            AnswerDifferences.EXPRESSIONS: self.expressions_differ,
            AnswerDifferences.PARTS: self.parts_differ,
            AnswerDifferences.RIGHTS: self.rights_differ,
            AnswerDifferences.NAMES: self.names_differ,
        }
        return AnswerDifferences(sum(flag for flag, differs in found.items() if differs))

    @property
    def logs_in_transaction(self) -> bool:
        """A listener writes the notification log in the transaction of the change."""
        return _NOTIFICATION_LISTENER in (self.settings[TRANSACTIONAL_LISTENERS] or "")

    @property
    def logs_after_commit(self) -> bool:
        """A listener writes the notification log, but only after the commit of the change."""
        return _NOTIFICATION_LISTENER in (self.settings[LISTENERS] or "")

    @property
    def caches(self) -> bool:
        """The metastore answers from its own cache (CachedStore), which may be stale."""
        return self.settings[RAW_STORE] not in (*_DEFAULTS[RAW_STORE], None)

    @property
    def other_catalog(self) -> str:
        """The catalog of names without one, if it is not `hive`, where the proxy looks for them; else empty."""
        catalog = (self.settings[CATALOG] or "").strip().lower()
        return "" if catalog in _DEFAULTS[CATALOG] else catalog


def _classes(setting: str) -> frozenset[str]:
    return frozenset(filter(None, (name.strip() for name in setting.split(","))))


def examine(connection: ServiceConnection) -> UpstreamFacts:
    """Asks one metastore for everything. Raises UpstreamError if it cannot be reached."""
    version = _text(connection.call("getVersion"))
    event_id, problem = _event_id(connection)
    return UpstreamFacts(
        uri=connection.uri,
        version=version,
        database_uuid=_database_uuid(connection),
        event_id=event_id,
        event_id_problem=problem,
        settings={name: _setting(connection, name, version) for name in _DEFAULTS},
    )


def _database_uuid(connection: ServiceConnection) -> str | None:
    try:
        return _text(connection.call("get_metastore_db_uuid"))
    except UnknownMethod:
        return None


def _event_id(connection: ServiceConnection) -> tuple[int | None, str | None]:
    try:
        found = getattr(connection.call("get_current_notificationEventId"), "eventId", None)
        return found, "an answer without an event id" if found is None else None
    except UpstreamError as error:
        if not error.sent:
            raise
        return None, str(error)


def _setting(connection: ServiceConnection, name: str, version: str) -> str | None:
    try:
        value = connection.call("get_config_value", name=name.encode(), defaultValue=_NOT_SET)
    except Declared:
        return _DEFAULTS[name][0] if name in (SERVER_FILTER, CATALOG) and version == "3.0" else None
    return _DEFAULTS[name][0] if value == _NOT_SET else _text(value)


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""
