"""Four plots of the advice, as PNG.

Job: draw them. Must not know: how plots are shown. matplotlib is an extra, so the function that needs it imports it.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from io import BytesIO
from typing import Any, Final, NamedTuple

from hms_cache_proxy.pipeline.advise.advice import MIB, Advice
from hms_cache_proxy.pipeline.advise.wording import printable
from hms_cache_proxy.plurals import counted

COLOURS: Final = {
    "hit": "#2a7f62",
    "miss": "#e08e45",
    "relay": "#8d99ae",
    "write": "#5c6bc0",
    "error": "#c0392b",
}
BARS: Final = 15
_SIZE: Final = (9.0, 4.2)
_DPI: Final = 110
_LABEL_CHARACTERS: Final = 48


class Plot(NamedTuple):
    """`name`: of its file."""

    title: str
    name: str
    png: bytes


def plots(advice: Advice) -> list[Plot]:
    """Draw them, in the order of the report."""
    from matplotlib.figure import Figure

    drawn = []
    for title, name, draw in (
        ("Calls per second", "traffic.png", _traffic),
        ("Hit ratio against cache size", "hit_ratio.png", _curve),
        ("Most read tables", "tables.png", _tables),
        ("Calls that go to the metastore, by reason", "reasons.png", _reasons),
    ):
        figure = Figure(figsize=_SIZE, layout="constrained")
        draw(figure.add_subplot(), advice)
        png = BytesIO()
        figure.savefig(png, dpi=_DPI)
        drawn.append(Plot(title, name, png.getvalue()))
    return drawn


def _traffic(axes: Any, advice: Advice) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    traffic = advice.answers.traffic
    overview, width = advice.answers.overview, timedelta(seconds=advice.answers.slot_s)
    begin = min((one.slot for one in traffic), default=overview.first)
    slots = [begin + number * width for number in range(-((begin - overview.last) // width))]
    rates: dict[str, dict[Any, float]] = defaultdict(dict)
    for one in traffic:
        rates[one.outcome][one.slot] = one.per_s
    outcomes = [outcome for outcome in COLOURS if outcome in rates]
    heights = [[rates[outcome].get(slot, 0.0) for slot in slots] for outcome in outcomes]
    colours = [COLOURS[outcome] for outcome in outcomes]
    if len(slots) > 1:
        axes.stackplot(slots, heights, labels=outcomes, colors=colours, alpha=0.9)
    else:
        for outcome, (height,), colour in zip(outcomes, heights, colours, strict=True):
            axes.bar([outcome], [height], color=colour, label=outcome)
    if len(slots) > 1:
        locator: Any = AutoDateLocator(maxticks=8)  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
        axes.margins(x=0)
    axes.set_ylabel("calls per second")
    axes.legend(loc="upper left", ncols=len(outcomes), frameon=False, fontsize=8)
    _tidy(axes)


def _curve(axes: Any, advice: Advice) -> None:
    choice = advice.choice
    sizes = [max(size, 1) / MIB for size, _ in choice.curve]
    axes.plot(sizes, [100 * ratio for _, ratio in choice.curve], color=COLOURS["hit"], drawstyle="steps-post")
    for name, ratio, style, place, off in (
        ("wanted", choice.wanted, "--", "bottom", 2),
        ("in the log", choice.now, ":", "top", -2),
    ):
        axes.axhline(100 * ratio, color="#555555", linestyle=style, linewidth=1)
        beside = {"xycoords": axes.get_yaxis_transform(), "textcoords": "offset points", "va": place}
        axes.annotate(f"{name}: {ratio:.1%}", (0, 100 * ratio), (3, off), fontsize=8, **beside)
    axes.plot([max(choice.size, 1) / MIB], [100 * choice.reached], "o", color=COLOURS["error"])
    axes.annotate(
        f"{counted(len(choice.tables), 'table')}: {choice.reached:.1%}",
        (max(choice.size, 1) / MIB, 100 * choice.reached),
        (6, -18),
        textcoords="offset points",
        fontsize=8,
    )
    if len(sizes) > 1 and sizes[-1] > 20 * sizes[1]:
        axes.set_xscale("log")
        axes.set_xlim(left=sizes[1] / 4)  # reads that need no table take almost no space
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axes.set_ylim(0, 104)
    axes.set_xlabel("MiB of replies")
    axes.set_ylabel("hit ratio of reads, %")
    _tidy(axes)


def _tables(axes: Any, advice: Advice) -> None:
    items = list(reversed(advice.hot[:BARS]))
    names = [_short(item.object or "") for item in items]
    rest = [item.reads - item.hits for item in items]
    places = range(len(items))  # two long names can look alike
    axes.set_yticks(places, names)
    axes.barh(places, [item.hits for item in items], color=COLOURS["hit"], label="hits")
    axes.barh(places, rest, left=[item.hits for item in items], color=COLOURS["miss"], label="others")
    axes.set_xlabel("reads")
    axes.tick_params(axis="y", labelsize=8)
    if items:
        axes.legend(loc="lower right", frameon=False, fontsize=8)
    _tidy(axes)


def _reasons(axes: Any, advice: Advice) -> None:
    calls: dict[tuple[str, str], float] = defaultdict(float)
    for one in advice.answers.relayed:
        calls[one.outcome, one.reason] += one.calls
    rows = sorted(calls.items(), key=lambda row: row[1])[-BARS:]
    names = [f"{reason or '(none)'} ({outcome})" for (outcome, reason), _ in rows]
    axes.barh(names, [number for _, number in rows], color=[COLOURS[outcome] for (outcome, _), _ in rows])
    axes.set_xlabel("calls")
    axes.tick_params(axis="y", labelsize=8)
    _tidy(axes)


def _tidy(axes: Any) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    axes.set_axisbelow(True)


def _short(name: str) -> str:
    """The name as a label, without what matplotlib would draw as a formula."""
    shown = name if len(name) <= _LABEL_CHARACTERS else f"...{name[3 - _LABEL_CHARACTERS :]}"
    return printable(shown).replace("$", r"\$")
