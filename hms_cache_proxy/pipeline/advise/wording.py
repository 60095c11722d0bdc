"""The advice in sentences, for the report and the terminal. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from hms_cache_proxy.pipeline.advise.advice import REMEDIES, Advice
from hms_cache_proxy.pipeline.advise.questions import ClientTraffic, Relayed
from hms_cache_proxy.plurals import counted, fitting

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def sentences(advice: Advice) -> Iterator[str]:
    """The most important findings."""
    choice, overview, made = advice.choice, advice.answers.overview, advice.patterns
    yield (
        f"{counted(overview.calls, 'call')} by {counted(overview.users, 'user')} from"
        f" {counted(overview.hosts, 'host')} about {counted(overview.tables, 'table')},"
        f" {when(overview.first)} to {when(overview.last)} (UTC)."
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
        number = len(choice.tables)
        yield (
            f"{number:,} of {counted(overview.tables, 'table')} {fitting(number, 'gives', 'give')} a hit ratio of"
            f" {choice.reached:.1%} (now {choice.now:.1%}; with everything cached {choice.best:.1%})."
            f" {fitting(number, 'It needs', 'They need')} cache.max_bytes = {size(advice.cache_bytes)}."
        )
    if made.include or made.exclude:
        yield left_out(len(made.include), len(made.exclude))
    yield never(advice)
    for client in advice.hammering:
        yield hammer(client)
    for listing in advice.answers.listings[:3]:
        yield (
            f"{listing.method} lists all of {listing.object}: {counted(listing.calls, 'time')}, up to"
            f" {size(listing.largest)} each, mostly for {who(listing.host, listing.user)}. A filter, or reading"
            " partitions by name, would transfer less."
        )


def left_out(include: int, exclude: int) -> str:
    """How many patterns of each kind there are."""
    kinds = (include, "include"), (exclude, "exclude")
    shown = " and ".join(counted(number, f"{kind} pattern") for number, kind in kinds if number)
    verb = fitting(include + exclude, "leaves", "leave")
    return f"{shown} {verb} out the rest (advice.toml)."


def never(advice: Advice) -> str:
    """Which tables nobody reads, as far as the log can tell."""
    several = advice.answers.overview.about_several
    also = (
        f" {counted(several, 'call')} that {fitting(several, 'names', 'name')} several tables"
        f" {fitting(several, 'is', 'are')} not counted: the log does not say which tables."
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
        every = fitting(known, "The only table was read", f"All {known:,} tables were read")
        return f"{every if known else 'There are no tables'}.{also}"
    first = ", ".join(".".join(name) for name in names[:5])
    return (
        f"{len(names):,} of {counted(known, 'table')} {fitting(len(names), 'was', 'were')} never read:"
        f" {first}{', ...' if len(names) > 5 else '.'}{also}"
    )


def hammer(client: ClientTraffic) -> str:
    about = f" about {client.repeated_object}" if client.repeated_object else ""
    return (
        f"{who(client.host, client.user)} calls {client.repeated_method}{about}"
        f" {counted(client.repeated_a_minute, 'time')} in one minute ({client.upstream:,.0f} of its"
        f" {counted(client.calls, 'call')} {fitting(client.upstream, 'was', 'were')} not answered from the cache)."
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


def ignored(empty: int, invalid: int) -> str:
    """How many lines of a log could not be used."""
    if empty and invalid:
        return f"{empty:,} empty and {counted(invalid, 'invalid line')} were ignored"
    if not empty and not invalid:
        return "none was ignored"
    kind = "empty line" if empty else "invalid line"
    return f"{counted(empty + invalid, kind)} {fitting(empty + invalid, 'was', 'were')} ignored"


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
