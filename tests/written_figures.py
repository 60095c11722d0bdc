"""Numbers with units in the pages that nobody generates.

Job: find, outside of generated parts and code, what looks like a measured figure: a number with a unit of time, size,
rate or share, so many of so many, and dates. `MAY_STAND` has those that are none, each with its reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_NUMBER: Final = r"(?<![\w.,`/-])\d+(?:,\d{3})*(?:\.\d+)?"
_UNITS: Final = "ns|us|ms|s|seconds?|minutes?|hours?|[kMG]B|[KMG]iB|bytes|times|fold|%"
_UNIT: Final = rf"(?:\s?(?:{_UNITS})(?![\w/])|\s?/s(?!\w)|x (?:faster|slower))"
_FIGURE: Final = re.compile(rf"{_NUMBER}{_UNIT}|\b20\d\d-[01]\d-[0-3]\d\b")
_HITS: Final = re.compile(rf"{_NUMBER} (?:of|out of) {_NUMBER}")
_GENERATED: Final = re.compile(r"<!-- begin (.+?) -->.*?<!-- end \1 -->", re.DOTALL)
_FENCED: Final = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_CODE: Final = re.compile(r"`[^`\n]*`")


def written_figures(page: str) -> Iterator[tuple[str, str]]:
    """(figure, the line it is in), in order."""
    blank = _blanked(page)
    lines, clear = page.split("\n"), blank.split("\n")
    for line, shown in zip(lines, clear, strict=True):
        for found in (*_FIGURE.finditer(shown), *_HITS.finditer(shown)):
            yield found[0], line


def _blanked(page: str) -> str:
    """The page with what is not looked at blanked, line for line."""
    for pattern in (_GENERATED, _FENCED, _CODE):
        page = pattern.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), page)
    return page


SETTING: Final = "a default or a limit in the code"
HIVE: Final = "how another program behaves"
SHAPE: Final = "what a test or a benchmark is made of"
LIMIT: Final = "a limit that the run of the tests is held to"
ADVICE: Final = "advice on sizes"

MAY_STAND: Final[dict[str, dict[str, str]]] = {
    "advice.md": {
        "at least 64 MiB": SETTING,
        "600 times or more within a minute": SETTING,
        "more than 256 KiB, more": SETTING,
    },
    "benchmarks.md": {"busy one every 20 ms": SETTING},
    "compatibility.md": {
        "may be old for up to 10 s": SETTING,
        "costs it 20 s of retries": HIVE,
    },
    "configuration.md": {"A method name may have 256 bytes": SETTING},
    "consistency.md": {
        "going to the metastore: 25 ms at most": SETTING,
        "taken lately (250 ms at most)": SETTING,
        "are looked at every 10 s": SETTING,
        "is read again, every 10 s": SETTING,
        "a test holds one for 12 s": SHAPE,
        "the window is 10 s": SETTING,
    },
    "audit.md": {
        "request of more than 16 KiB": SETTING,
        "or 64 MiB of requests": SETTING,
    },
    "pipeline.md": {"less than 16 MiB on average": SETTING},
    "operations.md": {
        "has shown life within 5 s": SETTING,
        "have shown life within 5 s": SETTING,
        "two cores and 1 GiB": ADVICE,
        "reserve 7 MiB there": SETTING,
        "(16 MiB in MariaDB)": HIVE,
        "| every 20 ms at most (`follower.": SETTING,
        "every 50 ms, which is two fifths of the longest pause": SETTING,
        "every 125 ms (`follower.": SETTING,
        "several statements where there is something to read, every 10 s": SETTING,
        "(asked every 5 s)": SETTING,
        "grows to 30 s": SETTING,
    },
    "recording.md": {
        "requests over 8 MiB and results over 64 MiB": SETTING,
        "replies up to 64 MiB are passed on": SETTING,
    },
    "reliability.md": {
        "loads at most 64 MiB of table objects": SETTING,
        "Caches of more than 4 GiB": SETTING,
        "(at most 100 ms": SETTING,
    },
    "testing.md": {
        "| 3 minutes |": LIMIT,
        "| 12 minutes |": LIMIT,
        "| 45 minutes |": LIMIT,
        "within 87.5 minutes": LIMIT,
        "takes more than 270 s there": LIMIT,
    },
    "test-results.md": {
        "was logged until then, within 5 s": LIMIT,
        "mapped files stays below 1 GiB": LIMIT,
    },
    "sizing.md": {"two cores, 1 GiB of memory": ADVICE},
    "ttl.md": {"Rates over 1, 5 and 15 minutes": HIVE},
    "cache/README.md": {
        "511 bytes": SETTING,
        "After 1 s,": SETTING,
        "in stored form (64 MiB at most)": SETTING,
        "an 8 KiB mmap": SETTING,
    },
    "follower/README.md": {"metastore is checked every 30 s": SETTING},
    "methods/README.md": {"beyond 100,000 moves or 10 s": SETTING, "(100 ms at most)": SETTING},
    "server/README.md": {"up to 8 MiB in memory": SETTING, "sees the first 64 KiB only": SETTING},
    "wire/README.md": {"even of 100 MB": SETTING},
}
"""By page (`PACKAGE/README.md` of a package), parts of lines whose numbers are no measured figures, and why."""


def key_of(path: Path) -> str:
    """Of a page in MAY_STAND."""
    inside = path.name == "README.md" and (path.parent / "__init__.py").exists()
    return f"{path.parent.name}/{path.name}" if inside else path.name
