"""The report: one HTML file that includes the plots.

Job: write the advice as HTML. Names come from clients, so everything is escaped. Must not know: how anything was found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from hms_cache_proxy import __version__
from hms_cache_proxy.pipeline import page
from hms_cache_proxy.pipeline.advise import wording
from hms_cache_proxy.pipeline.advise.advice import Advice
from hms_cache_proxy.pipeline.advise.plots import Plot
from hms_cache_proxy.plurals import counted

NEVER_SHOWN: Final = 200


def report(advice: Advice, toml: str, plots: Sequence[Plot]) -> str:
    """The whole page."""
    return "\n".join(_page(advice, toml, plots))


def _page(advice: Advice, toml: str, plots: Sequence[Plot]) -> Iterator[str]:
    yield "<!doctype html><html lang='en'><head><meta charset='utf-8'><title>hms-cache-proxy: advice</title>"
    yield f"<style>{page.STYLE}</style></head><body><h1>What the access log says</h1><ul>"
    yield from (f"<li>{escape(sentence)}</li>" for sentence in wording.sentences(advice))
    yield "</ul>"
    for plot in plots:
        yield f"<h2>{escape(plot.title)}</h2>"
        yield page.image(plot.title, plot.png)
    yield "<h2>Settings</h2><p>advice.toml. The size of a table is the sum of the largest reply of each method.</p>"
    yield f"<pre>{escape(toml)}</pre>"
    yield from _worth(advice)
    yield from _outcomes(advice)
    yield from _hot_tables(advice)
    yield from _never_read(advice)
    yield from _relayed(advice)
    yield from _clients(advice)
    yield from _listings(advice)
    yield from _log(advice)
    yield f"<p class='quiet'>hms-cache-proxy {escape(__version__)}, from {escape(', '.join(advice.logs))}</p>"
    yield "</body></html>"


def _worth(advice: Advice) -> Iterator[str]:
    yield "<h2>What each suggestion is worth</h2><p>The hit ratio of this log, as it was, and if this suggestion alone"
    yield " had been followed.</p>"
    yield from page.table(
        ("suggestion", "reason", "# more hits", "# hit ratio before", "# after"),
        (
            (one.suggestion, one.reason, _n(one.calls), f"{advice.choice.now:.1%}", f"{one.after:.1%}")
            for one in advice.worth
        ),
    )


def _outcomes(advice: Advice) -> Iterator[str]:
    yield "<h2>Outcomes</h2>"
    yield from page.table(
        ("outcome", "# calls", "# share", "# seconds of waiting"),
        (
            (one.outcome, _n(one.calls), f"{one.calls / advice.answers.overview.calls:.1%}", f"{one.seconds:,.1f}")
            for one in advice.answers.outcomes
        ),
    )


def _hot_tables(advice: Advice) -> Iterator[str]:
    yield "<h2>Hot tables</h2>"
    yield from page.table(
        ("table", "# reads", "# hits", "# writes", "# bytes", "# seconds"),
        (
            (
                one.object,
                _n(one.reads),
                _share(one.hits, one.reads),
                _n(one.writes),
                wording.size(one.size),
                f"{one.seconds:,.1f}",
            )
            for one in advice.hot
        ),
    )


def _never_read(advice: Advice) -> Iterator[str]:
    yield f"<h2>Tables that nobody reads</h2><p>{escape(wording.never(advice))}</p>"
    if advice.never.names:
        yield from _listed([".".join(name) for name in advice.never.names])


def _relayed(advice: Advice) -> Iterator[str]:
    yield "<h2>Calls that go to the metastore</h2><p>Always: no call of the method was a hit.</p>"
    yield from page.table(
        ("method", "outcome", "reason", "# calls", "# seconds", "always", "most of them about", "what can be done"),
        (
            (one.method, one.outcome, one.reason, _n(one.calls), f"{one.seconds:,.1f}", "always" if one.always else "")
            + (one.most, wording.relayed(one))
            for one in advice.answers.relayed
        ),
    )


def _clients(advice: Advice) -> Iterator[str]:
    yield "<h2>Clients</h2>"
    yield from page.table(
        (
            "client",
            "# calls",
            "# to the metastore",
            "# in its busiest minute",
            "most repeated question",
            "# in one minute",
        ),
        (
            (wording.who(one.host, one.user), _n(one.calls), _n(one.upstream), _n(one.busiest_minute))
            + (
                f"{one.repeated_method} {one.repeated_object or ''}",
                _n(one.repeated_a_minute) + (" !" if one.hammers else ""),
            )
            for one in advice.answers.clients
        ),
    )


def _listings(advice: Advice) -> Iterator[str]:
    yield "<h2>Listings that could be filters</h2>"
    yield from page.table(
        ("table", "method", "# calls", "# bytes of all", "# largest reply", "mostly by"),
        (
            (one.object, one.method, _n(one.calls), wording.size(one.bytes), wording.size(one.largest))
            + (wording.who(one.host, one.user),)
            for one in advice.answers.listings
        ),
    )


def _log(advice: Advice) -> Iterator[str]:
    yield "<h2>The log</h2>"
    read = advice.read
    yield f"<p>{counted(read.lines, 'line')}; {wording.ignored(read.empty, read.invalid)}.</p>"
    yield from page.table(
        ("file", "# empty", "# invalid", "for example"),
        ((one.file, _n(one.empty), _n(one.invalid), one.example) for one in read.bad),
    )


def _listed(names: Sequence[str]) -> Iterator[str]:
    more = f"\n... and {len(names) - NEVER_SHOWN:,} more, in advice.json" if len(names) > NEVER_SHOWN else ""
    yield f"<pre>{escape(chr(10).join(names[:NEVER_SHOWN]) + more)}</pre>"


def _n(number: float) -> str:
    return f"{number:,.0f}"


def _share(part: float, whole: float) -> str:
    return f"{part / whole:.1%}" if whole else ""
