"""What the reasons of misses mean: in short words for the status page, and at length for docs/metrics.md.

Job: have the one table of them; docs/build.py writes the documents from it, and words.py takes the short words. The
reasons of other outcomes are in other_reasons.py. Must not know: numbers, when a reason is given. Owner: any process;
constants.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hms_cache_proxy.consistency.gate import Reason


@dataclass(frozen=True, slots=True)
class ReasonText:
    """One reason. `label`: of the metric. `words`: in a line of the status page, where the label would stand. `means`
    and `remedy`, what can be done about it, are Markdown of a page in docs/."""

    label: str
    words: str
    means: str
    remedy: str = ""


MISSES: Final[tuple[ReasonText, ...]] = (
    ReasonText(
        Reason.STARTING,
        "the cache has not caught up since the start",
        "the cache has not caught up with the metastore since the start",
        "wait; `/status` shows the prewarm",
    ),
    ReasonText(
        Reason.UNCONFIRMED,
        "the follower has not confirmed the cache",
        "the follower has not confirmed the cache for `max_unconfirmed_ms`",
        "check the follower's log lines and the database",
    ),
    ReasonText(
        Reason.BOUNDED,
        "not confirmed within max_staleness_ms",
        "the cache was not confirmed within `max_staleness_ms`",
        "raise it, or lower `follower.poll_interval_max_ms`",
    ),
    ReasonText(
        Reason.PEERS,
        "another proxy is missing",
        "with `peers`: this proxy has no lease of another one, and no look at the database has ended that began "
        "after the call arrived",
        "see `peers` in `/status`: which proxy is missing?",
    ),
    ReasonText(
        Reason.STRICT,
        "a look at the database was not in time",
        '`consistency = "strict"`, or `transactional_reads = "strict"` and a transactional table; and no look '
        "at the database that began after the call arrived ended in time. As the reason of a `hit`: the table "
        "is transactional, the request proves nothing, and such a look ended in time",
        "nothing; this is what strict costs",
    ),
    ReasonText(
        Reason.FENCE,
        "being written, or not reloaded since",
        "a write to the object is in progress, or the cache has not reloaded the object yet",
        "nothing; it lasts milliseconds",
    ),
    ReasonText(
        Reason.UNSETTLED,
        "changed while it was read",
        'the object changed while the follower read it (only with `store = "thrift"`)',
        "nothing; the next step reloads it",
    ),
    ReasonText(
        Reason.UNFENCED,
        "a write could not be recorded: the disk is full",
        "a write or lock through this proxy could not be recorded, because the disk is full",
        "free disk space; the cache then answers again",
    ),
    ReasonText(
        Reason.FLOOR,
        "this client has seen something newer",
        "this connection has seen something newer in a relayed read",
        "nothing; it lasts until the next step",
    ),
    ReasonText(
        Reason.SETMETACONF,
        "the connection changed metastore settings",
        "the connection changed metastore settings for itself",
        "nothing",
    ),
    ReasonText(
        Reason.AUTHORIZATION,
        "the answer may depend on the user",
        "the metastore filters or refuses by user (`authorization` in docs/configuration.md)",
        "set `authorization`",
    ),
    ReasonText(
        Reason.VERDICT,
        "not compared for this user, or not equal",
        'with `authorization = "learned"`: the metastore has not given this user the cache\'s answer recently, '
        "or gives another one ([security.md](security.md))",
        "nothing, if the user may see the object; see `hms_proxy_authorization_checks_total`",
    ),
    ReasonText(
        Reason.NOT_LOADED,
        "not loaded yet",
        "the object is not in the cache (yet)",
        "wait for the prewarm",
    ),
    ReasonText(
        Reason.ABSENT,
        "does not exist, and cache_absent is off",
        "the object does not exist, and `cache_absent` is off",
        "set `cache_absent = true`",
    ),
    ReasonText(
        Reason.EXCLUDED,
        "left out by include or exclude",
        "`include` and `exclude` leave the table out",
        "nothing, if that is what you want; else correct them, and restart",
    ),
    ReasonText(
        Reason.FULL,
        "no room in the cache",
        "the cache has reached `cache.max_bytes`",
        "raise it, or exclude tables that nobody reads",
    ),
    ReasonText(
        Reason.NO_WRITE_ID,
        "a transactional table, read without a write id list",
        'with `transactional_reads = "passthrough"`: the table is transactional, and the request has no '
        "ValidWriteIdList",
        'set `transactional_reads = "strict"` (docs/consistency.md)',
    ),
    ReasonText(
        Reason.TABLE_ID,
        "a transactional table, without its id",
        "the table is transactional, and the list comes without the table's id, or with that of another table "
        "of this name; or the request has an id or a list of a table that is not in the cache yet",
        'with `transactional_reads = "passthrough"`: set `strict` (docs/consistency.md); else nothing: the '
        "client's metadata is older or newer than the cache, or its requests have no field for the id",
    ),
    ReasonText(
        Reason.WRITE_ID,
        "a transactional table that has been written since",
        "the table is transactional, and a transaction on it has committed between the request's list and the "
        "cache's, or an open one has changed the table. As the reason of a `hit`: the lists prove that the "
        "answer is current",
        'with `transactional_reads = "passthrough"`: set `strict`; else nothing: it depends on how often these '
        "tables are committed to",
    ),
    ReasonText(
        Reason.TRANSACTIONAL,
        "a transactional table of another catalog",
        "a transactional table of another catalog than `hive`: write ids have no catalog",
        "nothing",
    ),
    ReasonText(
        Reason.VARIANT,
        "fields that are unknown with store = thrift",
        'with `store = "thrift"`, the cache does not have the fields that only calls for a single partition return'
        "; or Hive 4.0.0 and 4.0.1 show partitions by some of their values differently",
        "set `store_url`",
    ),
    ReasonText(
        Reason.SETTINGS,
        "a setting of the metastore",
        "a setting of the metastore is not Hive's default: `metastore.limit.partition.request`, "
        "`metastore.partition.order.expr`, `metastore.try.direct.sql` or `metastore.try.direct.sql.ddl` (lists of "
        "partitions); `metastore.direct.sql.batch.size` (partitions by "
        "their names); `metastore.metadata.transformer.class` (answers to clients that send their "
        "capabilities); `metastore.stats.fetch.bitvector`, `.kll`, `hive.txn.stats.enabled` or "
        "`metastore.try.direct.sql` (column statistics); or a setting on which their aggregates depend "
        "(docs/consistency.md)",
        "use the default settings",
    ),
    ReasonText(
        Reason.LOCATION,
        "the metastore changes the location",
        "for a database under `metastore.warehouse.dir`, Hive 4 returns another location than the stored one; "
        "its own reply is kept",
        "nothing; the next read is a hit",
    ),
    ReasonText(
        Reason.FOREIGN_KEYS,
        "constraints that name other tables",
        "the table has foreign keys that refer to tables which are not cached, or have no primary key any more; "
        "the metastore's own reply is kept",
        "include these tables",
    ),
    ReasonText(
        Reason.UNLOGGED,
        "changes without an event",
        "this metastore can change the object without writing an event",
        "nothing",
    ),
    ReasonText(
        Reason.STATISTICS,
        "statistics that the metastore aggregates",
        "aggregate statistics that the proxy does not compute, or that a metastore may refuse to compute; its "
        "own reply is kept (docs/consistency.md)",
        "nothing; an equal read is a hit until something changes",
    ),
    ReasonText(
        Reason.ORDER,
        "a list in the database's own order",
        "a list whose order depends on the metastore's database; its own reply is kept",
        'set `list_order = "name"`',
    ),
    ReasonText(
        Reason.REMOTE,
        "behind a data connector",
        "the database is behind a data connector",
        "nothing",
    ),
    ReasonText(
        Reason.MATERIALIZED_VIEW,
        "a materialized view",
        "the table is a materialized view",
        "nothing",
    ),
    ReasonText(
        Reason.PRIVILEGES,
        "privileges for each partition",
        "the table has privileges per partition",
        "nothing",
    ),
    ReasonText(
        Reason.COLLATION,
        "the order depends on the database's collation",
        "the answer depends on an order that the database decides by a collation that is not bytewise",
        "use a metastore database with the C collation",
    ),
    ReasonText(
        Reason.SERDE,
        "columns that come from a serde",
        "columns of a table that the metastore gets from its serde (which may read files)",
        "nothing",
    ),
    ReasonText(
        Reason.FILTER_LIKE,
        "a filter with LIKE",
        "a partition filter with `LIKE`, whose meaning differs by database and version",
        "write the condition without `LIKE`, if you can",
    ),
    ReasonText(
        Reason.FILTER,
        "a filter that the proxy does not evaluate",
        "a partition filter that the proxy does not evaluate, or one for which it must look at more than 100,000 names",
        "put conditions on the first partition key",
    ),
    ReasonText(
        Reason.EXPRESSION_PUSHED,
        "an expression that the metastore pushes down",
        "a partition expression that the proxy understands and the metastore pushes down as a filter, but in "
        "the last ten minutes this worker has not seen the metastore answer one",
        "nothing; later expressions are hits",
    ),
    ReasonText(
        Reason.EXPRESSION_NAMES,
        "an expression over the names of partitions",
        "a partition expression that the proxy understands and the metastore evaluates over the names of partitions, "
        "but in the last ten minutes this worker has not seen the metastore answer one",
        "nothing; later expressions are hits",
    ),
    ReasonText(
        Reason.NAME,
        "a missing or unusual name",
        "a name that is missing or not in ASCII",
        "nothing",
    ),
    ReasonText(
        Reason.PATTERN,
        "a pattern whose meaning depends on the version",
        "a pattern that metastores of different versions interpret differently",
        "nothing",
    ),
    ReasonText(
        Reason.RELEASE,
        "this version of the metastore answers differently",
        "a metastore of this version answers differently",
        "nothing",
    ),
    ReasonText(
        Reason.CAPABILITIES,
        "the answer depends on the client's capabilities",
        "the answer depends on the client's capabilities, and the client does not send all those of HiveServer2",
        "set `hive.metastore.client.capabilities` to HiveServer2's",
    ),
    ReasonText(
        Reason.ARGUMENTS,
        "arguments that the proxy does not answer for",
        "the proxy does not answer for these arguments",
        "nothing",
    ),
    ReasonText(
        Reason.CACHE,
        "the cache cannot be read",
        "there is no cache yet, or it cannot be read",
        "check the log",
    ),
    ReasonText(
        Reason.NO_READER,
        "there is no kept reply",
        "a read that is only answered with a kept reply, and there is none yet; as the reason of a `relay`: the "
        "replies of this method are never kept",
        "nothing; an equal read is a hit until something changes, if its reply is kept",
    ),
)
