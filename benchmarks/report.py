"""Write docs/benchmarks.md, docs/benchmarks.json and docs/benchmarks.png from one run."""

from __future__ import annotations

import json
import platform
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.contents import Case
from benchmarks.freshness import Freshness
from benchmarks.measure import Result

DOCS = Path(__file__).parents[1] / "docs"
MARK = "<!-- figures below this line are written by `make bench` -->"


@dataclass
class Run:
    """`results[case][server]`; servers in the order of the table."""

    cases: list[Case]
    servers: list[str]
    results: dict[str, dict[str, Result]] = field(default_factory=dict)
    freshness: dict[str, Freshness] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)


def write(run: Run) -> None:
    document = {
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
        "results": {case: {name: asdict(one) for name, one in row.items()} for case, row in run.results.items()},
        "freshness": {name: asdict(one) for name, one in run.freshness.items()},
        "notes": run.notes,
    }
    (DOCS / "benchmarks.json").write_text(json.dumps(document, indent=2) + "\n")
    page = DOCS / "benchmarks.md"
    prose = page.read_text().partition(MARK)[0] if page.exists() else "# Benchmarks\n\n"
    page.write_text(f"{prose}{MARK}\n\n{_tables(run)}")
    plot(run, DOCS / "benchmarks.png")


def _tables(run: Run) -> str:
    parts = ["## Calls a second and server CPU\n", _throughput(run), "\n## Latency, ms (median / 99th percentile)\n"]
    parts += [_latency(run), "\n## A change at the metastore until the proxy serves it\n", _fresh(run)]
    if run.notes:
        parts += ["\n## Also measured\n", *(f"- {what}: {text}\n" for what, text in run.notes.items())]
    return "\n".join(parts)


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _throughput(run: Run) -> str:
    lines = [_row(["call", "conns", *run.servers, "proxy hit: times Hive", "share of bare", "goal"])]
    lines.append("|" + "---|" * (len(run.servers) + 5))
    for case in run.cases:
        row = run.results[case.key]
        cells = [_rate(row.get(server)) for server in run.servers]
        hit, hive, bare = row.get("proxy hit"), row.get("Hive 4.2"), row.get("bare uvloop")
        times = f"{hit.rps / hive.rps:.0f}x" if hit and hive else ""
        share = f"{100 * hit.rps / bare.rps:.0f} %" if hit and bare else ""
        lines.append(_row([case.label, str(case.connections), *cells, times, share, case.goal]))
    return "\n".join(lines)


def _rate(result: Result | None) -> str:
    if result is None:
        return ""
    cpu = f" ({result.cpu_us:,.0f} us)" if result.cpu_us is not None else ""
    return f"{result.rps:,.0f}/s{cpu}"


def _latency(run: Run) -> str:
    lines = [_row(["call", *run.servers]), "|" + "---|" * (len(run.servers) + 1)]
    for case in run.cases:
        found = [run.results[case.key].get(server) for server in run.servers]
        lines.append(_row([case.label, *(f"{one.p50_ms:.2f} / {one.p99_ms:.2f}" if one else "" for one in found)]))
    return "\n".join(lines)


def _fresh(run: Run) -> str:
    lines = [_row(["load", "median", "95th", "worst", "changes/s", "hits meanwhile"]), "|---|---|---|---|---|---|"]
    for load, one in run.freshness.items():
        times = [f"{ms:.0f} ms" for ms in (one.median_ms, one.p95_ms, one.worst_ms)]
        lines.append(_row([load, *times, f"{one.changes_per_s:.0f}", f"{100 * one.hit_share:.1f} %"]))
    return "\n".join(lines)


def plot(run: Run, path: Path) -> None:
    """Calls a second, logarithmic, a group of bars for each call."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(13, 6))
    width = 0.8 / len(run.servers)
    for index, server in enumerate(run.servers):
        places = [number + index * width for number in range(len(run.cases))]
        rates = [run.results[case.key][server].rps if server in run.results[case.key] else 0 for case in run.cases]
        axes.bar(places, rates, width, label=server)
    axes.set_yscale("log")
    axes.set_ylabel("calls a second, one server, two cores shared with its clients")
    axes.set_xticks([number + 0.4 - width / 2 for number in range(len(run.cases))])
    axes.set_xticklabels([case.label for case in run.cases], rotation=25, ha="right")
    axes.grid(axis="y", alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=110)
