"""Queries of Prometheus in files for operators, checked against the table of metrics.

Must not know: which file a query is from.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hms_cache_proxy.metric_table import TABLE

ROOT = Path(__file__).parents[2]
DASHBOARD = ROOT / "conf" / "grafana" / "hms-cache-proxy.json"
OF_PROMETHEUS = {"instance", "job", "le"}


def panels() -> list[dict[str, Any]]:
    """Of the dashboard, without the rows that divide it."""
    found: list[dict[str, Any]] = json.loads(DASHBOARD.read_text("utf-8"))["panels"]
    return [panel for panel in found if panel["type"] != "row"]


def expressions() -> Iterator[tuple[str, str]]:
    """Panel and query."""
    for panel in panels():
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


def check_names(text: str) -> None:
    """AssertionError for a metric or a label that the program does not have."""
    labels = {metric.name: set(metric.labels) for metric in TABLE}
    for name, selected in re.findall(r"\b(hms_proxy_\w+)(?:\{([^}]*)\})?", text):
        metric = re.sub(r"_(bucket|sum|count)$", "", name)
        assert metric in labels, name
        assert set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", selected)) <= labels[metric] | OF_PROMETHEUS, (name, selected)
    known = OF_PROMETHEUS.union(*labels.values())
    for grouped in re.findall(r"\bby \(([^)]*)\)", text):
        assert set(grouped.split(", ")) <= known, grouped
