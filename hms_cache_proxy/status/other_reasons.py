"""What the reasons of hits, relayed calls, writes and errors mean.

Job: have the one table of them; reasons.py has that of misses. Must not know: numbers, when a reason is given. Owner:
any process; constants.
"""

from __future__ import annotations

from typing import Final

from .reasons import ReasonText

OTHERS: Final[tuple[ReasonText, ...]] = (
    ReasonText(
        "unknown_method",
        "a method that Hive does not have",
        "a method that is not in [methods.md](methods.md), with the method label `other`. It counts as a write, "
        "unless `read_methods` has it, or its name is not ASCII, which no service can have",
    ),
    ReasonText(
        "lock",
        "a lock",
        "relayed: a call about locks",
    ),
    ReasonText(
        "transaction",
        "a transaction",
        "relayed: a call about transactions",
    ),
    ReasonText(
        "session",
        "settings of a connection",
        "relayed: a call that changes its connection, such as `set_ugi`; or, in TTL mode, a miss: the "
        "connection has changed settings of the metastore for itself",
    ),
    ReasonText(
        "events",
        "reads the notification log",
        "relayed: a call that reads the notification log",
    ),
    ReasonText(
        "neutral",
        "never cached",
        "relayed: a call that concerns no object of the cache",
    ),
    ReasonText(
        "read",
        "a read that TTL mode does not keep",
        "relayed, in TTL mode: replies to this read are not kept ([ttl.md](ttl.md))",
    ),
    ReasonText(
        "write",
        "a write of nothing that is kept",
        "a write, in TTL mode: it names nothing of which replies are kept",
    ),
    ReasonText(
        "ttl_off",
        "not kept: ttl = 0 for this kind",
        "a miss, in TTL mode: the `ttl` of this kind of object is 0 ([ttl.md](ttl.md))",
    ),
    ReasonText(
        "shared",
        "shared with an equal read",
        "a hit: an equal read was on its way to the metastore, and this one waited for its answer",
    ),
    ReasonText(
        "stale",
        "unconfirmed, during an outage",
        "a hit in an outage: the cache was not confirmed for longer than `max_unconfirmed_ms` (`serve_stale`)",
    ),
    ReasonText(
        "outage",
        "answered during an outage of the metastore",
        "`set_ugi` while no metastore works: the proxy answers it, and sends it on the next connection to a metastore",
    ),
    ReasonText(
        "login",
        "answered by the proxy, which knows the user",
        "the proxy answers the call itself ([security.md](security.md)): `set_ugi` of a client that has logged "
        "in or speaks HTTP, or where the proxy logs in to the metastores or speaks HTTP to them; a call for "
        "delegation tokens of a client that has logged in",
    ),
    ReasonText(
        "blocked",
        "a call about users or tokens that the proxy refuses",
        "an error: a call for delegation tokens that is refused; one of the token store that `security.block` "
        "names; or a `set_ugi` that is not one",
    ),
    ReasonText(
        "no_store",
        "store = none",
        'relayed: `store = "none"`',
    ),
    ReasonText(
        "no_upstream",
        "no metastore can be reached",
        "an error: no metastore can be reached",
    ),
    ReasonText(
        "upstream_busy",
        "all connections to the metastore stayed busy",
        "an error: all of `upstream_options.max_connections` stayed busy for `upstream_options.queue_timeout_s`",
    ),
    ReasonText(
        "spool_bytes",
        "no room for a long reply",
        "an error: no room for a long reply, `limits.spool_bytes` is used up",
    ),
    ReasonText(
        "upstream_lost",
        "the metastore closed the connection",
        "an error: the metastore closed the connection during the call",
    ),
    ReasonText(
        "upstream_timeout",
        "the metastore did not answer in time",
        "an error: the metastore did not answer within `upstream_options.request_timeout_s`; or it hangs, and "
        "the call changes nothing or was not sent yet",
    ),
    ReasonText(
        "upstream_protocol",
        "the metastore's reply breaks the protocol",
        "an error: the metastore's reply breaks the protocol",
    ),
    ReasonText(
        "upstream_refused",
        "the metastore refused the HTTP request",
        "an error: a metastore over HTTP answered with a status that says that the call was not done (401, 404, ...)",
    ),
    ReasonText(
        "upstream_status",
        "the metastore answered with an HTTP status that is an error",
        "an error: a metastore over HTTP answered with another status than 200, and may have done the call",
    ),
    ReasonText(
        "not_recorded",
        "not in the recording",
        "an error of a replay: the recording does not have the call",
    ),
    ReasonText(
        "read_only",
        "writes are refused",
        "an error: the call is a write, and `protection.read_only` is set ([protection.md](protection.md)) or the "
        "proxy is a replay; or, of a replay, a call that is never recorded",
    ),
    ReasonText(
        "refused",
        "forbidden by [protection]",
        "an error: `protection.refuse_writes` or `refuse_reads` has the database ([protection.md](protection.md))",
    ),
    ReasonText(
        "user_busy",
        "its user has too many calls at the metastore",
        "an error: as many calls of the user as `protection.calls_per_user` allows stayed at the metastore for "
        "`upstream_options.queue_timeout_s`",
    ),
    ReasonText(
        "address_busy",
        "its address has too many calls at the metastore",
        "an error: as many calls from the address as `protection.calls_per_address` allows stayed at the metastore for "
        "`upstream_options.queue_timeout_s`",
    ),
    ReasonText(
        "other_list",
        "recorded with another write id list",
        "a hit of a replay: recorded with another list of write ids or transactions",
    ),
    ReasonText(
        "oneway",
        "a call without a reply",
        "relayed, of a replay: the call expects no reply",
    ),
)
