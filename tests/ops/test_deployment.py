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
TRY = ROOT / "docker" / "try"
DEPLOYMENTS = [*sorted(path for path in (ROOT / "docker").iterdir() if path.is_file()), TRY / "compose.yaml"]
UNIT = ROOT / "conf" / "systemd" / "hms-cache-proxy.service"
MANIFESTS = sorted((ROOT / "docker").glob("kubernetes*.yaml"))
OF_COMMANDS = {"HMS_CACHE_PROXY_URL"}
"""Where `status` asks, and the image's health check."""
QUERIES = [ROOT / "conf" / "prometheus-rules.yml", ROOT / "docs" / "metrics.md"]


@pytest.mark.parametrize("path", DEPLOYMENTS, ids=lambda path: path.name)
def test_variables_are_settings(path: Path) -> None:
    names = set(re.findall(r"HMS_CACHE_PROXY_\w+", path.read_text("utf-8")))
    assert names and names <= {setting.env for setting in settings()} | OF_COMMANDS


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


def test_what_is_mounted_to_try_it_exists() -> None:
    compose = yaml.safe_load((TRY / "compose.yaml").read_text("utf-8"))
    services = compose["services"]
    for name, service in services.items():
        for source, target, *_ in (volume.split(":") for volume in service.get("volumes", ())):
            assert target.startswith("/")
            if source.startswith("."):
                assert (TRY / source).exists(), source
            else:
                assert source in compose["volumes"], source
        assert service.get("depends_on", {}).keys() <= services.keys(), name
    for files in (TRY / "trino").iterdir():
        (uri,) = re.findall(r"^hive.metastore.uri=thrift://([\w-]+):9083$", files.read_text("utf-8"), re.MULTILINE)
        assert uri in services


def test_what_is_provisioned_to_try_it() -> None:
    """Prometheus scrapes the proxy under the name that the alerts know, and Grafana finds it and the dashboard."""
    compose = yaml.safe_load((TRY / "compose.yaml").read_text("utf-8"))
    (job,) = yaml.safe_load((TRY / "prometheus.yml").read_text("utf-8"))["scrape_configs"]
    (usual,) = yaml.safe_load((ROOT / "conf" / "prometheus.yml").read_text("utf-8"))["scrape_configs"]
    assert job["job_name"] == usual["job_name"]
    assert job["static_configs"] == [{"targets": ["hms-cache-proxy:9084"]}]
    (source,) = yaml.safe_load((TRY / "grafana" / "datasources.yaml").read_text("utf-8"))["datasources"]
    assert source["url"] == "http://prometheus:9090" and "prometheus" in compose["services"]
    (provider,) = yaml.safe_load((TRY / "grafana" / "dashboards.yaml").read_text("utf-8"))["providers"]
    mounted = dict(volume.split(":")[:2][::-1] for volume in compose["services"]["grafana"]["volumes"])
    assert list((TRY / mounted[provider["options"]["path"]]).glob("*.json"))


def test_the_service_may_write_the_logs_of_the_documents_and_reloads() -> None:
    """Its file system is read-only but for these directories."""
    unit = dict(line.split("=", 1) for line in UNIT.read_text("utf-8").splitlines() if re.match(r"\w+=", line))
    named = {
        path
        for document in (ROOT / "docs").rglob("*.md")
        for path in re.findall(r'directory = "(/var/log/[^"]+)"', document.read_text("utf-8"))
    }
    assert unit["ProtectSystem"] == "strict" and named == {f"/var/log/{unit['LogsDirectory']}"}
    assert unit["Environment"] == f"HMS_CACHE_PROXY_DATA_DIR=/var/lib/{unit['StateDirectory']}/data"
    assert unit["ExecReload"] == "/bin/kill -HUP $MAINPID" and " --config " in unit["ExecStart"]
