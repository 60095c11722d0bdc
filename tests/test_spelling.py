"""Every word of the documents is one of the dictionary (American English), or stands in tests/words.txt; none is said
twice. Code, links and generated tables of names are no words."""

from __future__ import annotations

import functools
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.testbed.packages import required

ROOT = Path(__file__).parents[1]
ACCEPTED = ROOT / "tests" / "words.txt"
FOLDERS = ("docs", "hms_cache_proxy", "tests", "benchmarks", "idl")
PAGES = sorted([*ROOT.glob("*.md"), *(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md"))])
_NO_PROSE = re.compile(
    r"^ *```.*?^ *```$|``.*?``|`[^`]*`|<!--.*?-->|<[^<>]*>|\]\([^)]*\)|\]\[\w+\]|^\[\w+\]: .*$|https?://\S+",
    re.MULTILINE | re.DOTALL,
)
_WORD = re.compile(r"(?<![\w.$/'-])[A-Za-z][a-z]+(?:'[a-z]+)?(?![\w/]|\.\w)")
"""Names with capitals inside, digits, dots or slashes are left out."""


def prose(page: str) -> str:
    """What people read, with a back-tick for all else."""
    return _NO_PROSE.sub(" ` ", page)


def words(page: str) -> set[str]:
    """In lower case, without the s of a genitive."""
    return {found[0].removesuffix("'s").lower() for found in _WORD.finditer(prose(page))}


@functools.cache
def accepted() -> frozenset[str]:
    return frozenset(ACCEPTED.read_text("utf-8").split())


@functools.cache
def dictionary() -> Any:
    """Untyped: the package has no types."""
    required("spellchecker")
    from spellchecker import SpellChecker

    return SpellChecker()


def misspelled(page: str) -> set[str]:
    return set(dictionary().unknown(words(page))) - accepted()


def repeated(page: str) -> list[str]:
    """Words that stand twice, one after the other, outside of tables."""
    text = re.sub(r"^\|.*$", "", prose(page), flags=re.MULTILINE)
    return [word for word in re.findall(r"(?<![\w-])(\w+)(?: +| *\n *)\1(?![\w-])", text) if word.isalpha()]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_words(path: Path) -> None:
    page = path.read_text("utf-8")
    assert misspelled(page) == set(), "misspelled; a word that the dictionary lacks belongs into tests/words.txt"
    assert repeated(page) == []


def test_mistakes_are_found() -> None:
    page = "A metastore recieves it, the colour's wrong, `recieved`, [a link](http://x/becuase)\n```\nteh\n```\n"
    page += "It is hms_proxy_calls, 3ms and a.b.mispelled; Adress."
    assert misspelled(page) == {"recieves", "colour", "adress"}
    assert repeated("# It\n\nIt is and `and` and the\nthe end\n\n| no | no |\n") == ["the"]


def test_accepted_words_are_needed() -> None:
    kept = ACCEPTED.read_text("utf-8").split()
    assert kept == sorted(set(kept))
    used = set[str]().union(*(words(path.read_text("utf-8")) for path in PAGES))
    assert set(kept) - used == set(), "no document has these any more"
    assert set(kept) - set(dictionary().unknown(kept)) == set(), "the dictionary has these"


def test_every_document_is_read() -> None:
    done = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        pytest.skip("this is no clone: git does not say which files belong to it")
    assert {ROOT / name for name in done.stdout.splitlines()} <= set(PAGES)
