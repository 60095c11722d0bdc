"""The site of the documents: every page has a place, a strict build finds no dead link, the runbook has every alert."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hms_cache_proxy.config import load
from tests.document_blocks import blocks
from tests.testbed.packages import required

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
RULES = ROOT / "conf" / "prometheus-rules.yml"
RUNBOOK = "https://github.com/hms-cache-proxy/hms-cache-proxy/blob/main/docs/runbook.md#"
BUILD_S = 300


def in_navigation(entries: list[Any]) -> Iterator[str]:
    for entry in entries:
        if isinstance(entry, str):
            yield entry
        else:
            for below in entry.values():
                yield from in_navigation(below) if isinstance(below, list) else [below]


def test_every_page_has_one_place() -> None:
    text = re.sub(r"!!python/name:\S+", "name", (ROOT / "mkdocs.yml").read_text("utf-8"))
    placed = list(in_navigation(yaml.safe_load(text)["nav"]))
    assert sorted(placed) == sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))


def test_the_site_builds_without_dead_links(tmp_path: Path) -> None:
    required("mkdocs", "material")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=BUILD_S,
    )
    assert built.returncode == 0, built.stderr
    pages = list((tmp_path / "site").rglob("index.html"))
    assert len(pages) == len(list(DOCS.rglob("*.md")))
    assert "../CONTRIBUTING.md" not in (tmp_path / "site" / "index.html").read_text("utf-8")
    assert not list((tmp_path / "site").rglob("*.py")) and not (tmp_path / "site" / "figures").exists()


def rules() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load(RULES.read_text("utf-8"))["groups"][0]["rules"]
    return found


def test_the_runbook_has_every_alert() -> None:
    text = (DOCS / "runbook.md").read_text("utf-8")
    sections = re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert [name for name, _ in sections] == [rule["alert"] for rule in rules()]
    for name, section in sections:
        assert re.findall(r"^\*\*(.+?)\*\*", section, re.MULTILINE) == ["Means.", "Look at.", "Do."], name


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_an_alert_has_a_severity_and_leads_to_the_runbook(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    assert rule["annotations"]["runbook_url"] == RUNBOOK + rule["alert"].lower()


def settings_blocks() -> Iterator[tuple[str, str]]:
    for path in sorted(DOCS.rglob("*.md")):
        for number, block in enumerate(blocks(path.read_text("utf-8"))):
            if block.language == "toml":
                yield f"{path.relative_to(DOCS)}-{number}", block.text


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in settings_blocks()])
def test_settings_in_the_documents_are_accepted(tmp_path: Path, text: str) -> None:
    """As `check-config` reads them, in a file, with files for secrets; a part of a file gets an upstream."""
    given = tomllib.loads(text)
    if not given.keys() & {"upstream", "embedded", "replay"}:
        text = f'upstream = ["thrift://metastore.example.com:9083"]\n{text}'
    (tmp_path / "url").write_text("postgresql+psycopg2://hms_reader:x@db.example.com/metastore")
    (tmp_path / "secret").write_text("a long random text")
    text = re.sub(r'^store_url_file = ".*"', f'store_url_file = "{tmp_path}/url"', text, flags=re.MULTILINE)
    text = re.sub(r'^((?:peer_secret|token)_file) = ".*"', rf'\1 = "{tmp_path}/secret"', text, flags=re.MULTILINE)
    (tmp_path / "proxy.toml").write_text(text)
    load(tmp_path / "proxy.toml")
