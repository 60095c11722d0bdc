"""Generated parts of docs/*.md that are made of measured figures: from docs/figures/*.json (tests/figures.py).

Job: turn one file of figures into text. `PARTS` has the generated parts by the name of their marks.
Must not know: how anything is measured. Invariants: every part says by which command, at which commit and when its
figures were measured; a part whose file is not there says which command makes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Any, Final

from docs import benchmark_page, gains, results_page
from docs.markdown import number, table
from hms_cache_proxy.plurals import counted
from tests import figures
from tests.figures import Figures

Rows = Callable[[Figures], Iterable[str]]

SINGLE: Final = (
    *("access_log", "advise", "backlog", "cache_filters", "cache_size", "expressions", "fleet", "fleet_reads"),
    *("following", "listening", "prewarm", "secured", "sidecar", "statistics", "store_partitions", "strict"),
    *("strict_mode", "write_ids"),
)
"""Benchmarks with figures of their own, which are tables only."""


def tables(found: Figures) -> Iterator[str]:
    """A file with tables only: `{"tables": [{"title", "head", "rows", "text"}, ...]}`; `text` columns come first."""
    for one in found.figures["tables"]:
        yield from (one["title"], "") if one["title"] else ()
        rows = [[number(cell) for cell in row] for row in one["rows"]]
        yield from table([one["head"], *rows], text=one["text"])
        yield ""


def with_picture(found: Figures) -> Iterator[str]:
    """Tables that the same command has also drawn."""
    name = found.name.rpartition("/")[2]
    yield from (f"![{name}]({name}.png)", "", *tables(found))


def each(found: Sequence[Figures]) -> Iterator[str]:
    """Files with tables only, each with its own commit."""
    for one in found:
        yield from (one.stated, "", *tables(one))


def test_runs(tiers: Sequence[Figures]) -> Iterator[str]:
    """What the tiers took, and which of their tests failed. `slowdown`: of the machine; it was not always measured."""
    head = ["", "wall time", "slowdown", "in tests, all processes", "passed", "failed", "skipped", "servers started"]
    head += ["commit", "date", "cores"]
    rows = []
    for found in tiers:
        run = found.figures
        outcomes = run["outcomes"]
        counts = [f"{number:,}" for number in (outcomes.get("passed", 0), _failures(run), outcomes.get("skipped", 0))]
        started = sum(one["starts"] for one in run["started"].values())
        changed = " with changes" if found.changed else ""
        slowdown = f"{run['slowdown']:.1f}" if run.get("slowdown") is not None else ""
        times = [_minutes(run["wall_s"]), slowdown, _minutes(run["tests_s"])]
        where = [f"{found.commit}{changed}", found.date, str(found.machine["cores"])]
        rows.append([f"`{found.command}`", *times, *counts, f"{started:,}", *where])
    yield from table([head, *rows], text=1)
    for found in tiers:
        if _failures(found.figures):
            yield ""
            yield f"Failed in `{found.command}`: {_failed(found.figures)}."


def _failures(run: Mapping[str, Any]) -> int:
    """Of tests, and of what ends after them."""
    outcomes: Mapping[str, int] = run["outcomes"]
    return outcomes.get("failed", 0) + outcomes.get("failed at teardown", 0)


def _failed(run: Mapping[str, Any]) -> str:
    """Their names; runs of older versions did not keep them."""
    names = run.get("failed", ())
    return ", ".join(f"`{name}`" for name in names) or f"{counted(_failures(run), 'test')}; the run did not keep names"


def test_times(tiers: Sequence[Figures]) -> Iterator[str]:
    """Where the time of the tiers went: folders, and what was started."""
    for found in tiers:
        at = f"`{found.command}` at {found.commit}"
        yield f"{at}, in seconds of set-up, call and teardown of all processes:"
        yield ""
        folders = sorted(found.figures["folders"].items(), key=lambda row: -row[1]["seconds"])[:12]
        cells = [[f"`{name}`", f"{one['seconds']:,.0f}", f"{one['items']:,}"] for name, one in folders]
        yield from table([["folder", "seconds", "items"], *cells], text=1)
        started = sorted(found.figures["started"].items(), key=lambda row: -row[1]["seconds"])
        said = ", ".join(f"{kind} {one['starts']:,} ({one['seconds']:,.0f} s)" for kind, one in started)
        yield ""
        yield f"Started, with the seconds until they answered: {said or 'nothing'}."
        yield ""


def long_runs(runs: Sequence[Figures]) -> Iterator[str]:
    """One row for each kind of long run."""
    head = ["Command", "What it does", "Seeds", "Took", "Found", "Commit", "Date"]
    rows = []
    for found in runs:
        run = found.figures
        seeds = run["seeds"]
        said = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}" if seeds else ""
        changed = " with changes" if found.changed else ""
        rows.append(
            [f"`{found.command}`", run["what"], said, _minutes(run["seconds"]), run["outcome"]]
            + [f"{found.commit}{changed}", found.date]
        )
    yield from table([head, *rows], text=len(head))


def torture(runs: Sequence[Figures]) -> Iterator[str]:
    """One row for each run, and one for each kind of fault in all of them."""
    head = ["Command", "faults", "kinds", "fewest of a kind", "reads", "hits", "writes", "objects under a lost write"]
    rows = []
    for found in sorted(runs, key=lambda one: int(one.figures["seed"])):
        run, counts = found.figures, found.figures["counts"]
        times = [one["times"] for one in run["kinds"].values()]
        said = [counts[name] for name in ("reads", "hits", "writes", "objects under a lost write")]
        recovered = [inf if one["recovery_s"] is None else one["recovery_s"] for one in run["kinds"].values()]
        judged = [run["wrong"], run["slow"], max(recovered, default=0.0), counts["most memory, MiB"]]
        changed = " with changes" if found.changed else ""
        rows.append(
            [f"`{found.command}`", *map(number, [sum(times), len(times), min(times, default=0), *said, *judged])]
            + [f"{run['slowdown']['in the mean']:.1f}", f"{found.commit}{changed}", found.date]
        )
    head += ["wrong", "slow", "longest recovery, s", "memory, MiB", "slowdown", "commit", "date"]
    yield from table([head, *rows], text=1)
    yield ""
    struck, longest = Counter[str](), dict[str, float]()
    for found in runs:
        for kind, one in found.figures["kinds"].items():
            struck[kind] += one["times"]
            seconds = inf if one["recovery_s"] is None else one["recovery_s"]
            longest[kind] = max(seconds, longest.get(kind, 0.0))
    kinds = [[f"`{kind}`", number(struck[kind]), f"{longest[kind]:.1f}"] for kind in sorted(struck)]
    yield from table([["kind of fault", "times", "longest recovery, s"], *kinds], text=1)


def torture_planted(found: Figures) -> Iterator[str]:
    """One row for each fault that was put back, and one for each that other tests find."""
    head = ["fault that was put back", "planted", "kinds that struck", "what was said", "seed", "minutes", "commit"]
    rows = [
        [one["fault"], f"`{one['planted']}`", ", ".join(f"`{kind}`" for kind in one["kinds"].split(","))]
        + [one["said"] if one["found"] else "**not found**", number(one["seed"]), number(one["minutes"])]
        + [one["commit"]]
        for one in found.figures["faults"]
    ]
    yield from table([head, *rows], text=4)
    yield ""
    yield "Faults that it cannot find:"
    yield ""
    others = [[one["fault"], one["why"], f"`{one['test']}`"] for one in found.figures["elsewhere"]]
    yield from table([["fault", "why", "found by"], *others], text=3)


def coverage(found: Figures) -> Iterator[str]:
    """Lines of the package that each tier reaches, in all and by package."""
    told = found.figures
    tiers, of_all = told["tiers"], told.get("share_of_all", {})
    rows = [
        [f"`{tier}`", f"{one['lines']:,}", f"{one['covered']:,}", f"{one['covered'] / one['lines']:.1%}"]
        + [f"{of_all[tier]:.1%}" if tier in of_all else "", told.get("commits", {}).get(tier, found.commit)]
        for tier, one in tiers.items()
    ]
    head = ["tier", "lines", "reached", "share", "of what `all` reaches", "commit"]
    yield from table([head, *rows], text=1)
    yield ""
    by_package = [
        [f"`{name}`", *(f"{one[tier]:.1%}" if tier in one else "" for tier in tiers)]
        for name, one in told.get("packages", {}).items()
    ]
    yield from table([["package", *(f"`{tier}`" for tier in tiers)], *by_package], text=1)


def planted_faults(found: Figures) -> Iterator[str]:
    """What each planted fault is, and which test catches it."""
    rows = [
        [f"`{one['package']}`", one["fault"], f"`{one['by']}`" if one["caught"] else "**not caught**"]
        for one in found.figures["faults"]
    ]
    yield from table([["package", "fault", "caught by"], *rows], text=3)


CALLS: Final = ["method", "why not a hit", "hit", "miss", "relayed", "write", "error"]


def _calls(run: Mapping[str, Any]) -> Iterator[str]:
    rows = [[f"`{method}`", why, *map(number, counts)] for method, *counts, why in run["methods"]]
    yield from table([CALLS, *rows], text=2)


def trino(found: Figures) -> Iterator[str]:
    """What `make trino` did and found, kind by kind."""
    for name, run in found.figures.items():
        yield f"`{name}`: {_statements(run)}; {counted(run['differences'], 'difference')}. {_hits(run)}"
        yield ""
        yield from _calls(run)
        yield ""


def trino_acid(found: Figures) -> Iterator[str]:
    """What Trino did with transactional tables, by who chooses their locations."""
    for way, run in found.figures.items():
        done = f"{counted(run['steps'], 'step')} in {_minutes(run['seconds'])}"
        yield f'`bridge.managed_locations = "{way}"`: {done}; {run["wrong"]} not as they should be. {_hits(run)}'
        yield ""
        yield from _calls(run)
        yield ""


def hive_driver(runs: Sequence[Figures]) -> Iterator[str]:
    """What `make hive` did and found, by the setting of the proxies."""
    for found in runs:
        setting, run = found.name.rpartition("/")[2], found.figures
        yield found.stated
        yield ""
        cacheable = run["hits"] + run["misses"]
        hits = f"{run['hits']:,} of {cacheable:,} reads that can be cached were hits, {run['hits'] / cacheable:.1%}."
        yield f'`transactional_reads = "{setting}"`: {_statements(run)}; {run["failures"]} not as directly. {hits}'
        yield ""
        yield from _calls(run)
        yield ""


def hive_planning(found: Figures) -> Iterator[str]:
    """How long Hive's Driver planned each SELECT, and all of a table's."""
    of = found.figures
    tables_of = {name: each for name, each in of.items() if isinstance(each, dict)}
    yield f"{counted(of['partitions'], 'partition')} each; the least of {counted(of['rounds'], 'round')}."
    yield ""
    rows = []
    for name, each in tables_of.items():
        rows += [
            [f"`{sql}`", *map(number, (direct, through, through / direct))]
            for sql, direct, through in each["statements"]
        ]
        direct, through = each["direct_s"], each["through_s"]
        rows.append([f"all of `{name}`", *map(number, (direct, through, through / direct))])
    yield from table([["statement", "directly, s", "through the proxy, s", "share"], *rows], text=1)
    yield ""
    for name, each in tables_of.items():
        hits, asked = each["by_expression"]
        yield f"`{name}`: {number(hits)} of {number(asked)} calls by expression were hits. {_hits(each)}"
        yield ""


def conditions(runs: Sequence[Figures]) -> Iterator[str]:
    """One row for each run, and their sum."""
    head = ["seed", "classes of", "conditions", "changes of partitions", "answers compared", "of them whole partitions"]
    head += ["differences", "hits of answerable forms", "commit", "date"]
    rows = []
    sums, hits, asked = [0] * 5, 0, 0
    for found in runs:
        run = found.figures
        counts = [run[name] for name in ("conditions", "changes", "compared", "whole", "different")]
        sums = [one + other for one, other in zip(sums, counts, strict=True)]
        hits, asked = hits + run["answered_forms"][0], asked + run["answered_forms"][1]
        share = run["answered_forms"][0] / run["answered_forms"][1]
        changed = " with changes" if found.changed else ""
        rows.append([f"{run['seed']}", run["planner"], *map(number, counts), f"{share:.1%}"])
        rows[-1] += [f"{found.commit}{changed}", found.date]
    rows.append(["all", "", *map(number, sums), f"{hits / asked:.1%}", "", ""])
    yield from table([head, *rows], text=2)


def mutations(found: Figures) -> Iterator[str]:
    """What became of changed expressions."""
    run = found.figures
    rows = [
        ["changed expressions", run["changed"]],
        ["of them read", run["read"]],
        ["of these, as one that was captured", run["as_before"]],
        ["evaluated over names", run["evaluated"]],
        ["read or evaluated otherwise than by Hive", run["wrong"]],
        ["most CPU time to read one, ms", run["slowest_ms"]],
    ]
    yield from table([[f"seed {run['seed']}", ""], *([what, number(count)] for what, count in rows)], text=1)


def lakehouse(found: Figures) -> Iterator[str]:
    """What `make lakehouse` did, job by job."""
    for name, run in found.figures.items():
        done = f"{counted(run['steps'], 'step')} in {_minutes(run['seconds'])}"
        yield f"`{name}`: {done}; {len(run['failures'])} not as they should be. {_hits(run)}"
        yield ""
        yield from _calls(run)
        yield ""


def _statements(run: Mapping[str, Any]) -> str:
    executed = counted(run["executed"], "time")
    return f"{counted(run['statements'], 'statement')}, executed {executed} in {_minutes(run['seconds'])}"


def _hits(run: Mapping[str, Any]) -> str:
    return f"{run['hits']:,} of {run['reads']:,} calls other than writes were hits, {run['hits'] / run['reads']:.1%}."


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.1f} min" if seconds >= 100 else f"{seconds:.0f} s"


def _one(name: str, command: str, rows: Rows = tables) -> Callable[[], str]:
    """A part that is made of one file."""

    def text() -> str:
        if not figures.exists(name):
            return f"No figures are kept here: `{command}` measures them."
        found = figures.read(name)
        return "\n".join([found.stated, "", *rows(found)]).rstrip()

    return text


def _several(folder: str, command: str, rows: Callable[[Sequence[Figures]], Iterable[str]]) -> Callable[[], str]:
    """A part that is made of all files whose names begin so; each row names its commit."""

    def text() -> str:
        found = [figures.read(name) for name in figures.names() if name.startswith(folder)]
        if not found:
            return f"No figures are kept here: `{command}` measures them."
        return "\n".join(rows(found)).rstrip()

    return text


def _parts() -> Iterator[tuple[str, Callable[[], str]]]:
    yield "figures gains", gains.text
    for name, rows in benchmark_page.PARTS.items():
        yield f"figures {name}", _one("benchmarks", "python -m benchmarks", rows)
    for part in ("cold", "listing", "constraints", "aggregates", "filters"):
        yield f"figures {part}", _one(f"parts/{part}", f"python -m benchmarks --only {part}")
    yield "figures curves", _one("single/curves", "python -m benchmarks.curves --keep", with_picture)
    for name in SINGLE:
        yield f"figures {name}", _one(f"single/{name}", f"python -m benchmarks.{name} --keep")
    yield "figures pipeline", _several("pipeline/", "python -m benchmarks.pipeline --keep", each)
    yield "figures results", results_page.text
    yield "figures tests", _several("tests-", "make test FIGURES=1", test_runs)
    yield "figures test times", _several("tests-", "make test FIGURES=1", test_times)
    yield "figures long runs", _several("long-runs/", "python -m tests.long_runs NAME", long_runs)
    yield "figures torture", _several("torture/", "make torture FIGURES=1", torture)
    yield "figures torture planted", _one("torture-planted", "python -m tests.torture.planted", torture_planted)
    yield "figures coverage", _one("coverage", "python -m tests.covered", coverage)
    yield "figures trino", _one("trino", "make trino FIGURES=1", trino)
    yield (
        "figures trino acid",
        _one("trino-acid", "python -m tests.clients.trino_acid --figures", trino_acid),
    )
    yield "figures hive driver", _several("hive-driver/", "make hive FIGURES=1", hive_driver)
    yield (
        "figures hive planning",
        _one("hive-planning", "python -m tests.clients.hive_planning --figures", hive_planning),
    )
    yield "figures conditions", _several("conditions/", "python -m tests.differential.conditions --figures", conditions)
    yield "figures mutations", _one("mutations", "python -m tests.expressions.mutations --figures", mutations)
    yield "figures lakehouse", _one("lakehouse", "make lakehouse FIGURES=1", lakehouse)
    yield "figures planted faults", _one("planted-faults", "python -m tests.planted_faults", planted_faults)


PARTS: Final[dict[str, Callable[[], str]]] = dict(_parts())
