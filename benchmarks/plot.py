"""The pictures of docs/benchmarks.md: four panels of one run, and what grows with the size of the catalog.

Invariant: a bar is drawn only where the counters agree with its name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.contents import CASES
from benchmarks.measure import Result
from benchmarks.run import Run
from benchmarks.servers import BARE, CACHED_STORE, HIT, HIVE, MISS, SERVERS, called

COLOURS = {HIVE: "#8c564b", CACHED_STORE: "#ff9f40", MISS: "#9db7d5", HIT: "#1f77b4", BARE: "#b0b0b0"}
SHORT = {
    "get_database": "get_database",
    "get_table": "get_table_req",
    "get_partition_by_name": "get_partition\n_by_name",
    "many_tables": "get_table_req\nmany tables",
    "by_names_1000": "partitions_by_names\n1,000 of 10,000",
    "names_10000": "partition_names\n10,000",
    "partitions_10000": "get_partitions\n10,000",
    "filter_huge": "by_filter\n1 of 100,000",
    "expression_huge": "by_expr\n1 of 100,000",
}


PANELS = {
    "CPU us": "a call that was never made before, CPU us",
    "CPU ms": "the follower and its file, CPU ms",
    "CPU s": "filling an empty cache, CPU s",
    "MB": "file and memory, MB",
}
"""Unit of a measure, and the title of its panel."""


def _pyplot() -> Any:
    """It takes a second to import, and is an extra."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def _save(figure: Any, title: str, path: Path) -> None:
    figure.suptitle(title, fontsize=11)
    figure.tight_layout()
    figure.savefig(path, dpi=100)
    _pyplot().close(figure)


def plot(run: Run, path: Path, when: str) -> None:
    figure, ((calls, cpu), (fresh, memory)) = _pyplot().subplots(2, 2, figsize=(15, 10))
    _bars(calls, run, "calls a second", lambda result: result.rps)
    _bars(cpu, run, "server CPU per call, us (proxy miss: the proxy's own)", lambda result: result.cpu_us)
    calls.set_ylim(top=10 * calls.get_ylim()[1])  # room for the legend
    calls.legend(ncols=5, fontsize=8, loc="upper center")
    _freshness(fresh, run)
    _prewarm(memory, run)
    _save(figure, f"One run of `python -m benchmarks` at commit {when}; warm servers", path)


def _bars(axes: Any, run: Run, title: str, value: Any) -> None:
    width = 0.8 / len(SERVERS)
    for index, server in enumerate(SERVERS):
        found: list[tuple[float, Result]] = [
            (number + (index - len(SERVERS) / 2 + 0.5) * width, run.results[case.key][server])
            for number, case in enumerate(CASES)
            if (one := run.results[case.key].get(server)) is not None and called(server, one.counted) == server
        ]
        axes.bar([x for x, _ in found], [value(one) for _, one in found], width, label=server, color=COLOURS[server])
    axes.set_yscale("log")
    axes.set_title(title, fontsize=10)
    axes.set_xticks(range(len(CASES)), [SHORT[case.key] for case in CASES], fontsize=7, rotation=20)
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)


def _freshness(axes: Any, run: Run) -> None:
    for load, one in run.freshness.items():
        shares = [(number + 1) / len(one.delays_ms) for number in range(len(one.delays_ms))]
        label = f"{load}, {one.changes_per_s:.0f} DDL/s" if one.changes_per_s else load
        axes.step(one.delays_ms, shares, where="post", label=label)
    axes.axvline(50, color="grey", linestyle="--", linewidth=1, label="goal for the median under load")
    axes.set_xscale("log")
    axes.set_ylim(0, 1)
    axes.set_title("share of changes that the proxy shows after so many ms", fontsize=10)
    axes.set_xlabel("ms after the metastore's reply")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)


def _prewarm(axes: Any, run: Run) -> None:
    if run.prewarm is None:
        axes.set_axis_off()
        return
    done = [partitions / 1000 for partitions, _ in run.prewarm.memory]
    axes.plot(done, [held / 1e6 for _, held in run.prewarm.memory])
    axes.set_ylim(bottom=0)
    axes.set_title("prewarm: memory of the follower, MB", fontsize=10)
    axes.set_xlabel("thousand partitions in the cache")
    axes.grid(alpha=0.3)


def curves(tables: Sequence[Mapping[str, Any]], path: Path, commit: str) -> None:
    """`tables` as benchmarks/curves.py makes them: a row of panels for each, a line for each measure."""
    figure, panels = _pyplot().subplots(len(tables), len(PANELS), figsize=(17, 5 * len(tables)), squeeze=False)
    for row, table in zip(panels, tables, strict=True):
        sizes = [int(title.partition(" ")[0].replace(",", "")) for title in table["head"][1:-1]]
        for axes, (unit, title) in zip(row, PANELS.items(), strict=True):
            for name, *values, _ in table["rows"]:
                measure, _, of = name.rpartition(", ")
                if of == unit:
                    axes.plot(sizes, values, marker="o", label=measure)
            axes.set(xscale="log", yscale="log", xlabel=table["head"][1].partition(" ")[2])
            low, high = axes.get_ylim()
            axes.set_ylim(low / 4, high * 30)  # a small difference looks small, and the legend has room
            axes.set_title(title, fontsize=10)
            axes.grid(alpha=0.3)
            axes.legend(fontsize=7, loc="upper left")
    _save(figure, f"One run of `python -m benchmarks.curves` at commit {commit}", path)
