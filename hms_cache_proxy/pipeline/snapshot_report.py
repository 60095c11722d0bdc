"""`snapshot report`: the answers to all ready questions as one HTML file, with plots.

Job: ask the questions, draw the plots, write the file. Must not know: how views are made. A question that needs an
earlier snapshot or access logs is left out if there are none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

from hms_cache_proxy import __version__
from hms_cache_proxy.pipeline import page
from hms_cache_proxy.pipeline.query import Catalog, QueryAnswer
from hms_cache_proxy.pipeline.ready_questions import QUESTIONS, ReadyQuestion, given

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BARS: Final = 15
_COLOUR: Final = "#2a7f62"
_SIZE: Final = (9.0, 4.2)
_DPI: Final = 110
_LABEL_CHARACTERS: Final = 56


ReportSection = tuple[ReadyQuestion, QueryAnswer]


def report(spark: SparkSession, catalog: Catalog) -> str:
    """The whole page. Raises SnapshotError."""
    lacking = list[str]()
    ask = catalog.views(spark, lacking.append)
    sections = [(question, ask(question.sql, page.ROWS + 1)) for question in asked(catalog)]
    return "\n".join(_page(catalog, sections, lacking))


def asked(catalog: Catalog) -> list[ReadyQuestion]:
    """The questions that can be answered."""
    there = given(catalog.before, catalog.logs)
    return [question for question in QUESTIONS.values() if question.needs in there]


def _page(catalog: Catalog, sections: Sequence[ReportSection], lacking: Sequence[str]) -> Iterator[str]:
    yield "<!doctype html><html lang='en'><head><meta charset='utf-8'><title>hms-cache-proxy: a catalog</title>"
    yield f"<style>{page.STYLE}</style></head><body><h1>What a snapshot of the catalog says</h1>"
    yield from (f"<p>{escape(line)}</p>" for line in lacking)
    for question, answer in sections:
        yield from _section(question, answer)
    before = f", compared with {catalog.before}" if catalog.before else ""
    yield f"<p class='quiet'>hms-cache-proxy {escape(__version__)}, from {escape(catalog.uri + before)}</p>"
    yield "</body></html>"


def _section(question: ReadyQuestion, answer: QueryAnswer) -> Iterator[str]:
    title = question.text[0].upper() + question.text[1:]
    yield f"<h2>{escape(title)}</h2>"
    rows = answer.rows[: page.ROWS]
    if len(answer.rows) > page.ROWS:
        yield f"<p class='quiet'>The first {page.ROWS} are shown.</p>"
    if question.measure and rows:
        yield page.image(title, _plot(rows[:BARS], question.measure))
    numbers = {name for name in answer.columns if all(isinstance(row[name], int) for row in rows)}
    heads = [f"# {_words(name)}" if name in numbers else _words(name) for name in answer.columns]
    yield from page.table(heads, ([_cell(value) for value in row.values()] for row in rows))


def _plot(rows: Sequence[dict[str, Any]], measure: str) -> bytes:
    """Bars, the longest on top. matplotlib is an extra."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=_SIZE, layout="constrained")
    axes = figure.add_subplot()
    places = range(len(rows))  # two long names can look alike
    axes.barh(places, [row[measure] for row in rows], color=_COLOUR)
    axes.set_yticks(places, [_label(row) for row in rows], fontsize=8)
    axes.set_ylim(max(len(rows), 4) - 0.5, -0.5)
    axes.set_xlabel(_words(measure))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="x", alpha=0.25)
    axes.set_axisbelow(True)
    drawn = BytesIO()
    figure.savefig(drawn, dpi=_DPI)
    return drawn.getvalue()


def _label(row: dict[str, Any]) -> str:
    """The table or location, without what matplotlib would draw as a formula."""
    name = row["location"] if "table" not in row else f"{row['database']}.{row['table']}"
    shown = name if len(name) <= _LABEL_CHARACTERS else f"...{name[3 - _LABEL_CHARACTERS :]}"
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in shown).replace("$", r"\$")


def _words(column: str) -> str:
    return column.replace("_", " ")


def _cell(value: Any) -> Any:
    if isinstance(value, list):
        return ", ".join(value)
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else value
