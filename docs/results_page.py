"""What docs/test-results.md shows first: for each kind of run, one line with what the runs that were kept have found.

Must not know: how a run is made. A kind without figures says which command makes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from docs.markdown import number, table
from hms_cache_proxy.plurals import counted
from tests import figures
from tests.figures import Figures

Line = Callable[[Sequence[Figures]], str]


def text() -> str:
    """A table with a row for each kind."""
    rows = [["Run", "Found", "Commit", "Date"]]
    for title, command, of, line in KINDS:
        found = [figures.read(name) for name in figures.names() if name == of or name.startswith(f"{of}/")]
        link = f"[{title}](#{anchor(title)})"
        if not found:
            rows.append([link, f"No figures are kept here: `{command}` measures them.", "", ""])
            continue
        commits = dict.fromkeys(commit for one in found for commit in _commits(one))
        dates = sorted({one.date for one in found})
        last = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
        rows.append([link, line(found), ", ".join(commits), last])
    return "\n".join(table(rows, text=4))


def anchor(title: str) -> str:
    """Of a section, as GitHub and MkDocs make it."""
    return title.lower().replace(" ", "-").replace("'", "")


def torture(found: Sequence[Figures]) -> str:
    """Of all runs."""
    runs = [one.figures for one in found]
    faults = sum(kind["times"] for run in runs for kind in run["kinds"].values())
    kinds = len({kind for run in runs for kind in run["kinds"]})
    wrong, slow = (sum(run[name] for run in runs) for name in ("wrong", "slow"))
    said = f"{counted(len(runs), 'run')}, {counted(faults, 'fault')} of {counted(kinds, 'kind')}"
    return f"{said}; {counted(wrong, 'wrong answer')}; {number(slow)} too slow"


def put_back(found: Sequence[Figures]) -> str:
    """Of the faults that the machine should find."""
    faults = [fault for one in found for fault in one.figures["faults"]]
    return f"{_of(faults, 'found')} faults that were put back were found"


def long_runs(found: Sequence[Figures]) -> str:
    """Of all kinds of long runs."""
    clean = sum("nothing found" in one.figures["outcome"] for one in found)
    return f"nothing found in {number(clean)} of {counted(len(found), 'kind')}"


def trino(found: Sequence[Figures]) -> str:
    """Of all kinds of statements."""
    runs = [run for one in found for run in one.figures.values()]
    statements, executed, differences = (
        sum(run[name] for run in runs) for name in ("statements", "executed", "differences")
    )
    said = f"{counted(statements, 'statement')}, executed {counted(executed, 'time')}"
    return f"{said}; {counted(differences, 'difference')}"


def acid(found: Sequence[Figures]) -> str:
    """Of both ways to choose locations."""
    runs = [run for one in found for run in one.figures.values()]
    return f"{counted(sum(run['steps'] for run in runs), 'step')}; {_wrong(sum(run['wrong'] for run in runs))}"


def lakehouse(found: Sequence[Figures]) -> str:
    """Of both jobs."""
    runs = [run for one in found for run in one.figures.values()]
    return f"{counted(sum(run['steps'] for run in runs), 'step')}; {_wrong(sum(len(run['failures']) for run in runs))}"


def driver(found: Sequence[Figures]) -> str:
    """By the setting of the proxies."""
    parts = []
    for one in found:
        run, setting = one.figures, one.name.rpartition("/")[2]
        share = run["hits"] / (run["hits"] + run["misses"])
        wrong = f"{number(run['failures'])} not as directly"
        parts.append(f"`{setting}`: {counted(run['statements'], 'statement')}, {wrong}, {share:.1%} hits")
    return "; ".join(parts)


def planning(found: Sequence[Figures]) -> str:
    """The time of all statements of a table, in relation to the time without the proxy."""
    tables = {name: of for one in found for name, of in one.figures.items() if isinstance(of, dict)}
    shares = (f"`{name}` {of['through_s'] / of['direct_s']:.2f}" for name, of in tables.items())
    return f"time through the proxy, as a share of the time without it: {', '.join(shares)}"


def conditions(found: Sequence[Figures]) -> str:
    """Of all seeds."""
    compared, different = (sum(one.figures[name] for one in found) for name in ("compared", "different"))
    return f"{counted(len(found), 'run')}, {counted(compared, 'answer')} compared; {counted(different, 'difference')}"


def mutations(found: Sequence[Figures]) -> str:
    """Of all changed expressions."""
    changed, wrong = (sum(one.figures[name] for one in found) for name in ("changed", "wrong"))
    return f"{counted(changed, 'changed expression')}; {number(wrong)} read or evaluated otherwise than by Hive"


def planted(found: Sequence[Figures]) -> str:
    """Of all packages."""
    faults = [fault for one in found for fault in one.figures["faults"]]
    return f"{_of(faults, 'caught')} faults, one in each package, were caught"


def _commits(found: Figures) -> Iterator[str]:
    """Of the file, or of its rows where each was measured by itself."""
    of_rows = [row["commit"] for row in found.figures.get("faults", ()) if "commit" in row]
    yield from of_rows or [f"{found.commit}{' with changes' if found.changed else ''}"]


def _of(rows: Sequence[dict[str, object]], key: str) -> str:
    return f"{sum(bool(row[key]) for row in rows)} of {len(rows)}"


def _wrong(times: int) -> str:
    return f"{number(times)} not as they should be"


KINDS: Final[tuple[tuple[str, str, str, Line], ...]] = (
    ("Planted faults", "python -m tests.planted_faults", "planted-faults", planted),
    ("Long runs", "python -m tests.long_runs NAME", "long-runs", long_runs),
    ("The torture machine", "make torture FIGURES=1", "torture", torture),
    ("Faults that were put back", "python -m tests.torture.planted", "torture-planted", put_back),
    ("Trino", "make trino FIGURES=1", "trino", trino),
    ("Trino on transactional tables", "python -m tests.clients.trino_acid --figures", "trino-acid", acid),
    ("Iceberg and Delta on Spark", "make lakehouse FIGURES=1", "lakehouse", lakehouse),
    ("Hive's own Driver", "make hive FIGURES=1", "hive-driver", driver),
    ("Planning of Hive's Driver", "python -m tests.clients.hive_planning --figures", "hive-planning", planning),
    ("Conditions of Hive's planner", "python -m tests.differential.conditions --figures", "conditions", conditions),
    ("Changed expressions", "python -m tests.expressions.mutations --figures", "mutations", mutations),
)
"""The section of the page, the command, the file or folder of figures, and what makes the line."""
