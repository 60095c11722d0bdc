"""What a manifest of Kubernetes must have, whether it is written by hand or rendered from the chart.

Job: find the proxy's containers, and check what no schema says: settings that exist, volumes that are large enough,
what the restricted level of pod security asks. Must not know: which file a manifest is from.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from hms_cache_proxy.config import settings

Manifest = dict[str, Any]
_UNITS = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}


def pod_of(document: Manifest) -> Manifest:
    """The specification of the pod."""
    pod: Manifest = document["spec"]["template"]["spec"] if document["kind"] != "Pod" else document["spec"]
    return pod


def own_containers(document: Manifest) -> Iterator[Manifest]:
    """The proxy's own; each mounts only volumes that the pod has."""
    pod = pod_of(document)
    claimed = {claim["metadata"]["name"] for claim in document["spec"].get("volumeClaimTemplates", ())}
    volumes = claimed | {volume["name"] for volume in pod["volumes"]}
    for container in (*pod["containers"], *pod.get("initContainers", ())):
        if container["image"].startswith("hms-cache-proxy:"):
            assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
            yield container


def check(document: Manifest) -> None:
    """AssertionError if a workload would not do its work."""
    pod = pod_of(document)
    for container in own_containers(document):
        given = {entry["name"]: entry["value"] for entry in container["env"]}
        assert given.keys() <= {setting.env for setting in settings()}
        _check_restricted(pod.get("securityContext", {}) | container["securityContext"])
        _check_room(given, _data_volume(document, container))


def _check_restricted(context: Manifest) -> None:
    """What the restricted level of pod security asks, and a root file system that nothing writes to."""
    assert context["runAsNonRoot"] is True and context["runAsUser"] > 0
    assert context["allowPrivilegeEscalation"] is False and context["readOnlyRootFilesystem"] is True
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}


def _check_room(given: dict[str, str], volume: int) -> None:
    """The cache, one that was moved aside, and the long replies of all workers fit, with a tenth to spare."""
    cache = size(given["HMS_CACHE_PROXY_CACHE_MAX_BYTES"])
    spools = int(given["HMS_CACHE_PROXY_WORKERS"]) * size(given["HMS_CACHE_PROXY_LIMITS_SPOOL_BYTES"])
    assert 2 * cache + spools < 0.9 * volume


def _data_volume(document: Manifest, container: Manifest) -> int:
    (name,) = (mount["name"] for mount in container["volumeMounts"] if mount["mountPath"].startswith("/var/lib/"))
    for claim in document["spec"].get("volumeClaimTemplates", ()):
        if claim["metadata"]["name"] == name:
            return size(claim["spec"]["resources"]["requests"]["storage"])
    (volume,) = (volume for volume in pod_of(document)["volumes"] if volume["name"] == name)
    limit = size(volume["emptyDir"]["sizeLimit"])
    ephemeral = container["resources"]["limits"].get("ephemeral-storage")
    assert ephemeral is None or limit < size(ephemeral), "the pod would be evicted before the volume is full"
    return limit


def size(text: str) -> int:
    """Of Kubernetes (20Gi) or of the program (6GiB)."""
    found = re.fullmatch(r"(\d+)([KMG]i)B?", text)
    assert found, text
    return int(found[1]) * _UNITS[found[2]]
