"""The files for operators (docker/, conf/) say what the program knows: settings, paths, ports, metrics, labels."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hms_cache_proxy.config import settings
from hms_cache_proxy.metric_table import TABLE
from tests.ops.manifests import own_containers
from tests.ops.queries import check_names

ROOT = Path(__file__).parents[2]
DEPLOYMENTS = sorted(path for path in (ROOT / "docker").iterdir() if path.is_file())
MANIFESTS = sorted((ROOT / "docker").glob("kubernetes*.yaml"))
QUERIES = [ROOT / "conf" / "prometheus-rules.yml", ROOT / "docs" / "metrics.md"]


@pytest.mark.parametrize("path", DEPLOYMENTS, ids=lambda path: path.name)
def test_variables_are_settings(path: Path) -> None:
    names = set(re.findall(r"HMS_CACHE_PROXY_\w+", path.read_text("utf-8")))
    assert names and names <= {setting.env for setting in settings()}


def containers(path: Path) -> Iterator[dict[str, Any]]:
    """The proxy's own in a manifest."""
    for document in yaml.safe_load_all(path.read_text("utf-8")):
        if document["kind"] in ("StatefulSet", "Pod"):
            yield from own_containers(document)


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_manifests(path: Path) -> None:
    server = (ROOT / "hms_cache_proxy" / "status" / "http.py").read_text("utf-8")
    found = list(containers(path))
    assert len(found) == 1
    ports = {port["name"]: port["containerPort"] for port in found[0]["ports"]}
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if probe in found[0]:
            asked = found[0][probe]["httpGet"]
            assert f'"{asked["path"]}"' in server
            assert ports[asked["port"]] == 9084


@pytest.mark.parametrize("path", QUERIES, ids=lambda path: path.name)
def test_metrics_of_queries_exist(path: Path) -> None:
    text = path.read_text("utf-8")
    assert re.search(r"hms_proxy_\w+", text)
    check_names(text)


def test_rules_are_named_and_explained() -> None:
    scraped = yaml.safe_load((ROOT / "conf" / "prometheus.yml").read_text("utf-8"))
    assert (ROOT / "conf" / scraped["rule_files"][0]).exists()
    rules = yaml.safe_load(QUERIES[0].read_text("utf-8"))["groups"][0]["rules"]
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        assert rule["expr"] and rule["annotations"]["summary"]
        metric = re.search(r"hms_proxy_\w+", rule["expr"])
        shown = re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])
        if metric:
            assert set(shown) <= {label for row in TABLE if row.name == metric[0] for label in row.labels}
