"""The advice in sentences, for the report and the terminal. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from hms_cache_proxy.pipeline.advise.advice import REMEDIES, Advice
from hms_cache_proxy.pipeline.advise.questions import ClientTraffic, Relayed

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def sentences(advice: Advice) -> Iterator[str]:
    """The most important findings."""
    choice, overview, made = advice.choice, advice.answers.overview, advice.patterns
    yield (
        f"{overview.calls:,.0f} calls by {overview.users:,} users from {overview.hosts:,} hosts about"
        f" {overview.tables:,} tables, {when(overview.first)} to {when(overview.last)} (UTC)."
        + (" The log is a sample: numbers are estimates, and rare calls may be missing." if overview.sampled else "")
    )
    if not overview.reads:
        yield "No call has a method that the cache can answer, so there is no advice on the size of the cache."
    elif choice.reached < choice.wanted:
        yield (
            f"Caching more tables cannot give a hit ratio of {choice.wanted:.1%}: all tables together give"
            f" {choice.best:.1%} (now {choice.now:.1%}). The reasons for the other misses are below."
        )
    else:
        yield (
            f"{len(choice.tables):,} of {overview.tables:,} tables give a hit ratio of {choice.reached:.1%} (now"
            f" {choice.now:.1%}; with everything cached {choice.best:.1%}). They need cache.max_bytes ="
            f" {size(advice.cache_bytes)}."
        )
    if made.include or made.exclude:
        yield f"{len(made.include)} include and {len(made.exclude)} exclude patterns leave out the rest (advice.toml)."
    yield never(advice)
    for client in advice.hammering:
        yield hammer(client)
    for listing in advice.answers.listings[:3]:
        yield (
            f"{listing.method} lists all of {listing.object}: {listing.calls:,.0f} times, up to {size(listing.largest)}"
            f" each, mostly for {who(listing.host, listing.user)}. A filter, or reading partitions by name, would"
            " transfer less."
        )


def never(advice: Advice) -> str:
    """Which tables nobody reads, as far as the log can tell."""
    several = advice.answers.overview.about_several
    also = (
        f" {several:,.0f} calls that name several tables are not counted: the log does not say which tables."
        if several
        else ""
    )
    if advice.never.known is None:
        return (
            "To find tables that nobody reads, a list of all tables is needed: give --metastore thrift://HOST:PORT (of"
            " the metastore or of the proxy), or --tables FILE."
        )
    names, known = advice.never.names, advice.never.known
    if not names:
        return f"All {known:,} tables were read.{also}"
    first = ", ".join(".".join(name) for name in names[:5])
    return f"{len(names):,} of {known:,} tables were never read: {first}{', ...' if len(names) > 5 else '.'}{also}"


def hammer(client: ClientTraffic) -> str:
    about = f" about {client.repeated_object}" if client.repeated_object else ""
    return (
        f"{who(client.host, client.user)} calls {client.repeated_method}{about} {client.repeated_a_minute:,.0f} times"
        f" in one minute ({client.upstream:,.0f} of its {client.calls:,.0f} calls were not answered from the cache)."
    )


def relayed(one: Relayed) -> str:
    """Why these calls go to the metastore, and what can be done."""
    if one.reason in REMEDIES:
        return REMEDIES[one.reason]
    if one.outcome == "relay":
        return f"only the metastore can answer such calls ({one.reason or 'relay'})"
    return "see the reason in docs/metrics.md"


def printable(text: str) -> str:
    """Replace control characters, which a terminal would interpret, by their code points: names come from clients."""
    return "".join(one if one.isprintable() else f"\\u{ord(one):04x}" for one in text)


def who(host: str, user: str | None) -> str:
    return f"{user} at {host}" if user else host or "an unknown client"


def when(time: datetime) -> str:
    """In UTC, to the minute."""
    return f"{time:%Y-%m-%d %H:%M}"


def size(number: float) -> str:
    """Bytes in a suitable unit."""
    value = float(number)
    for unit in _UNITS:
        if value < 1024 or unit == _UNITS[-1]:
            break
        value /= 1024
    return f"{value:.0f} {unit}" if unit == "bytes" or value >= 100 else f"{value:.1f} {unit}"
