"""The advice in sentences, for the report and the terminal alike. Pure."""

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
        + (" The log is a sample: numbers are estimates, and seldom calls may be missing." if overview.sampled else "")
    )
    if not overview.reads:
        yield "No call is of a method that can be answered from a cache: there is nothing to advise on its size."
    elif choice.reached < choice.wanted:
        yield (
            f"A hit ratio of {choice.wanted:.1%} cannot be had by caching more tables: all of them give"
            f" {choice.best:.1%} (now {choice.now:.1%}). The reasons of the other misses are below."
        )
    else:
        yield (
            f"{len(choice.tables):,} of {overview.tables:,} tables give a hit ratio of {choice.reached:.1%} (now"
            f" {choice.now:.1%}, with everything cached {choice.best:.1%}); cache.max_bytes ="
            f" {size(advice.cache_bytes)} is enough for them."
        )
    if made.include or made.exclude:
        yield f"{len(made.include)} include and {len(made.exclude)} exclude patterns keep the others out (advice.toml)."
    yield never(advice)
    for client in advice.hammering:
        yield hammer(client)
    for listing in advice.answers.listings[:3]:
        yield (
            f"{listing.object} is listed as a whole by {listing.method}: {listing.calls:,.0f} times, up to"
            f" {size(listing.largest)} each, mostly by {who(listing.host, listing.user)}. A filter, or the partitions"
            " by name, would be less."
        )


def never(advice: Advice) -> str:
    """What can be said of tables that nobody reads, and what not."""
    several = advice.answers.overview.about_several
    also = (
        f" {several:,.0f} calls about several tables at once do not say which, and are not counted." if several else ""
    )
    if advice.never.known is None:
        return (
            "Which tables nobody reads cannot be said without a list of all tables: give --metastore thrift://HOST:PORT"
            " (the proxy will do) or --tables FILE."
        )
    names, known = advice.never.names, advice.never.known
    if not names:
        return f"Each of the {known:,} tables was read.{also}"
    first = ", ".join(".".join(name) for name in names[:5])
    return f"{len(names):,} of {known:,} tables were never read: {first}{', ...' if len(names) > 5 else '.'}{also}"


def hammer(client: ClientTraffic) -> str:
    about = f" about {client.repeated_object}" if client.repeated_object else ""
    return (
        f"{who(client.host, client.user)} asks {client.repeated_method}{about} {client.repeated_a_minute:,.0f} times in"
        f" one minute ({client.upstream:,.0f} of all its {client.calls:,.0f} calls were not answered from the cache)."
    )


def relayed(one: Relayed) -> str:
    """Why such calls go to the metastore, and what can be done."""
    if one.reason in REMEDIES:
        return REMEDIES[one.reason]
    if one.outcome == "relay":
        return f"calls of this kind ({one.reason or 'relay'}) are the metastore's to answer"
    return "see the reason in docs/metrics.md"


def printable(text: str) -> str:
    """What clients call themselves and others may hold anything: what a terminal would obey is shown as its number."""
    return "".join(one if one.isprintable() else f"\\u{ord(one):04x}" for one in text)


def who(host: str, user: str | None) -> str:
    return f"{user} at {host}" if user else host or "an unknown client"


def when(time: datetime) -> str:
    """In UTC, to the minute."""
    return f"{time:%Y-%m-%d %H:%M}"


def size(number: float) -> str:
    """Bytes in the unit that suits."""
    value = float(number)
    for unit in _UNITS:
        if value < 1024 or unit == _UNITS[-1]:
            break
        value /= 1024
    return f"{value:.0f} {unit}" if unit == "bytes" or value >= 100 else f"{value:.1f} {unit}"
