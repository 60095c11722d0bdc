"""Says in one sentence each what is wrong with a proxy, and what to do: the first lines of the status page.

Job: decide from the object of /status. Must not know: where the facts come from, how they are shown. The gravest
problem comes first; if everything is well, the sentence says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple

from hms_cache_proxy.plurals import counted, fitting

Facts = Mapping[str, Any]
LOW_RATIO: Final = 0.5
ENOUGH_READS: Final = 100
FULL: Final = 0.95


class Banner(NamedTuple):
    """`level`: good, warn (works, but slower or at a risk) or bad (calls fail, or clients should go elsewhere)."""

    level: Literal["good", "warn", "bad"]
    text: str
    advice: str = ""


_ADVICE: Final[Mapping[str, str]] = {
    "no_store": "To cache reads, set store_url, or store = thrift.",
    "no_log": "Set store_url, or have the metastore write its notification log; `hms-cache-proxy doctor` says more.",
    "authorization": "If all users may see the same, set authorization = none, else learned; see docs/security.md.",
    "other_database": "Correct `upstream` or `store_url`: both must belong to the same metastore.",
    "cached_store": "Remove CachedStore from the metastore's settings (metastore.rawstore.impl).",
    "other_catalog": "Set metastore.catalog.default of the metastore back to hive.",
    "replica": "Set store_url to the primary database.",
    "unchecked": "Start a metastore, or correct the setting `upstream`.",
    "unconfirmed": "Look at the follower's log lines, and whether the database answers.",
}


def banner(facts: Facts) -> Banner:
    """The sentence for the state that /status shows."""
    for look in _LOOKS:
        found = look(facts)
        if found is not None:
            return found
    return Banner("good", "All is well: reads are answered from the cache.")


def _draining(facts: Facts) -> Banner | None:
    if facts["not_ready"] == "draining":
        return Banner("warn", "The proxy is stopping: calls in progress are finished.")
    return None


def _workers(facts: Facts) -> Banner | None:
    workers = facts["workers"]
    if not workers["accepting"]:
        return Banner(
            "bad", "No worker accepts connections.", "If this lasts for more than a few seconds, see the log."
        )
    if workers["running"] < workers["wanted"]:
        missing = workers["wanted"] - workers["running"]
        wanted = counted(workers["wanted"], "worker process", "worker processes")
        text = f"{missing} of {wanted} {fitting(missing, 'is', 'are')} not running."
        return Banner("warn", text, "They are restarted by themselves; the log says why they ended.")
    return None


def _outage(facts: Facts) -> Banner | None:
    upstream = facts["upstream"]
    if upstream["reachable"] is not False:
        return None
    since = _duration(upstream["since_s"])
    if facts["mode"] in ("cache", "stale"):
        text = f"No metastore has answered for {since}. Reads are still answered from the cache; everything else fails."
        return Banner("bad", text, "Start the metastore, or correct the setting `upstream`.")
    text = f"No metastore has answered for {since}, so calls fail."
    return Banner("bad", text, "Start it, or correct the setting `upstream`.")


def _fences(facts: Facts) -> Banner | None:
    if not facts["fences"]["usable"]:
        text = "Writes cannot be recorded, so everything is relayed to the metastore."
        return Banner("bad", text, "The file of fences is damaged and is being replaced; if this lasts, see the log.")
    return None


def _mode(facts: Facts) -> Banner | None:
    mode, reason = facts["mode"], facts["mode_reason"]
    if mode == "stale":
        return Banner("bad", "Answers are not confirmed: neither a metastore nor the database answers.", "Start them.")
    if mode != "relay":
        return None
    if reason == "starting":
        return Banner("warn", "The cache is being filled; until then, calls go to the metastore.", _progress(facts))
    return Banner("warn", f"Everything is relayed: {facts['mode_text']}.", _ADVICE.get(reason, ""))


def _some_metastores(facts: Facts) -> Banner | None:
    silent = [one["uri"] for one in facts["upstream"]["all"] if one["reachable"] is False]
    if not silent:
        return None
    verb = fitting(len(silent), "does", "do")
    advice = f"Start {fitting(len(silent), 'it', 'them')} again."
    return Banner("warn", f"{', '.join(silent)} {verb} not answer; calls go to the others.", advice)


def _peers(facts: Facts) -> Banner | None:
    missing = [peer["address"] for peer in facts["peers"] or () if peer["state"] == "missing"]
    if not missing:
        return None
    number, names = len(missing), ", ".join(missing)
    who = fitting(number, f"proxy {names} is", f"proxies {names} are")
    text = f"The other {who} missing, so reads wait for a look at the database."
    it = fitting(number, "it", "them")
    return Banner("warn", text, f"Start {it}, or remove {it} from `peers` of all proxies.")


def _prewarm(facts: Facts) -> Banner | None:
    if facts["mode"] != "cache" or facts["prewarm"]["done"]:
        return None
    return Banner("warn", "The cache is being filled; what is loaded is already answered from it.", _progress(facts))


def _full(facts: Facts) -> Banner | None:
    most = facts["cache_max_bytes"]
    if facts["mode"] == "cache" and facts["cache_bytes"] > FULL * most:
        text = "The cache is full: the least recently used tables are evicted."
        return Banner("warn", text, "Raise cache.max_bytes, or exclude tables that nobody reads.")
    return None


def _ratio(facts: Facts) -> Banner | None:
    calls = facts["calls"]
    reads, ratio = calls["hits"] + calls["misses"], calls["hit_ratio"]
    if facts["mode"] != "cache" or reads < ENOUGH_READS or ratio >= LOW_RATIO:
        return None
    first = next((one for one in calls["reasons"] if one["outcome"] == "miss"), None)
    most = f" Most misses: {first['words']} (`{first['reason']}` in docs/metrics.md)." if first else ""
    return Banner("warn", f"Only {ratio:.0%} of the cacheable reads are answered from the cache.{most}")


def _unused(facts: Facts) -> Banner | None:
    if facts["mode"] != "cache" or facts["calls"]["total"]:
        return None
    port = facts["listen"].rpartition(":")[2]
    text = "The cache is ready, and no client has called yet."
    return Banner("good", text, f"Set hive.metastore.uris of the clients to this host, port {port}.")


def _other_modes(facts: Facts) -> Banner | None:
    if facts["mode"] == "replay":
        return Banner("good", "A recording is replayed; writes are refused.")
    if facts["mode"] == "ttl":
        return Banner("good", "TTL mode: reads are answered from the cache for a limited time.")
    return None


_LOOKS: Final[tuple[Callable[[Facts], Banner | None], ...]] = (
    _draining,
    _workers,
    _outage,
    _fences,
    _mode,
    _some_metastores,
    _peers,
    _prewarm,
    _full,
    _ratio,
    _unused,
    _other_modes,
)


def _progress(facts: Facts) -> str:
    prewarm = facts["prewarm"]
    done, total = prewarm["tables_done"], prewarm["tables_total"]
    return f"{done:,} of {counted(total, 'table')} {fitting(done, 'is', 'are')} loaded."


def _duration(seconds: float | None) -> str:
    if seconds is None or seconds < 120:
        return f"{seconds or 0:.0f} s"
    return f"{seconds / 60:,.0f} min" if seconds < 7200 else f"{seconds / 3600:,.1f} h"
