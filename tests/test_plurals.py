"""One of something is never said in the plural, and the sentences of the commands leave the choice to plurals.py."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from hms_cache_proxy.plurals import counted, fitting, listed

PACKAGE = Path(__file__).parents[1] / "hms_cache_proxy"
SPEAKING = ("cli", "doctor", "pipeline", "snapshots", "status")
NOUN = re.compile(r" (?:[a-z]+ )?(?!is\b|was\b|has\b|does\b|this\b|its\b|as\b)[a-z]+s\b")
FINE = {
    "cli/remote.py: {confirmed} ms": "a unit",
    "cli/snapshot.py: {limit} rows": "if it is not one, by fitting",
    "cli/snapshot.py: {self.question} needs": "a name",
    "doctor/database.py: {hours} hours": "with a decimal: 1.0 hours",
    "doctor/database.py: {len(report.tables)} tables": "some dozens",
    "doctor/machine.py: {config.limits.max_connections} needs": "a setting",
    "doctor/metastores.py: {len(uuids)} different databases": "more than one",
    "pipeline/advise/lines.py: {found.empty} lines": "if it is not one, by fitting",
    "pipeline/advise/snippet.py: {choice.reached} for calls": "a share",
    "pipeline/advise/snippet.py: {missed[reason] / overview.reads} of reads": "a share",
    "pipeline/advise/wording.py: {fitting(several, 'names', 'name')} several tables": "a verb",
    "pipeline/advise/wording.py: {known} tables": "if it is not one, by fitting",
    "pipeline/advise/wording.py: {listing.method} lists": "a name",
    "pipeline/advise/wording.py: {who(client.host, client.user)} calls": "a name",
    "pipeline/audit.py: {ATTEMPTS} attempts": "a constant",
    "pipeline/increment.py: {MOST_ROWS} partitions": "a constant",
    "pipeline/increment.py: {over} changes": "more than that constant",
    "snapshots/s3.py: {uri} names": "a name",
}
"""What looks like a number with a plural, and why it may stay."""


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 tables"), (1, "1 table"), (2, "2 tables"), (1200, "1,200 tables"), (0.7, "1 table"), (1.4, "1 table")],
)
def test_counted(number: float, text: str) -> None:
    assert counted(number, "table") == text


def test_other_words() -> None:
    assert (counted(1, "miss", "misses"), counted(2, "miss", "misses")) == ("1 miss", "2 misses")
    assert (fitting(1, "is", "are"), fitting(0, "is", "are"), fitting(1.6, "is", "are")) == ("is", "are", "are")
    assert listed({"databases": 1, "tables": 0, "partitions": 1000}) == "1 database, 0 tables, 1,000 partitions"


def plurals(source: str) -> Iterator[str]:
    """The `{value} nouns` in f-strings of a module."""
    for node in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.JoinedStr)):
        for value, text in pairwise(node.values):
            if isinstance(value, ast.FormattedValue) and isinstance(text, ast.Constant):
                found = NOUN.match(text.value)
                if found is not None:
                    yield f"{{{ast.unparse(value.value)}}}{found[0]}"


def test_the_search_finds_plurals() -> None:
    told = 'f"{number:,} calls by {users} new users, {one} is {n} table{s}" f"{n} s", "1 tables"'
    assert list(plurals(told)) == ["{number} calls", "{users} new users"]


def test_no_command_chooses_by_itself() -> None:
    files = [path for package in SPEAKING for path in sorted((PACKAGE / package).rglob("*.py"))]
    found = {f"{path.relative_to(PACKAGE)}: {one}" for path in files for one in plurals(path.read_text("utf-8"))}
    assert found == FINE.keys(), (found - FINE.keys(), FINE.keys() - found)
