"""Patterns select what they say, and take linear time, whatever text they nearly match."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from hms_cache_proxy.filters.wildcards import any_text_between, one_after_another
from tests.chance import chance
from tests.testbed.processes import SOON_S

NEARLY = {
    "names of tables": """
from hms_cache_proxy.methods.readers.patterns import read_pattern
pattern = read_pattern(b"*a*a*a*a*a*a*a*b")
assert not pattern.matches(b"a" * 256) and pattern.matches(b"a" * 255 + b"b")
""",
    "names of the embedded metastore": """
from hms_cache_proxy.embedded.patterns import matcher
assert not matcher("*a" * 20 + "*b")("a" * 256)
""",
    "LIKE": """
from hms_cache_proxy.filters.values import like
assert not like("%a" * 20 + "%b").fullmatch("a" * 256)
""",
    "parameters": """
from hms_cache_proxy.embedded.part_groups import parameters_like
assert not parameters_like({"a" * 256: ""}, "%a" * 20 + "%b", None)
""",
    "values of partitions": """
from types import SimpleNamespace
from hms_cache_proxy.methods.readers.partial import _patterns
keys = [(b"k%d" % number, b"string") for number in range(4)]
_, loose = _patterns(SimpleNamespace(partition_keys=keys), [b"%a%a%a%ab"] * 4)
name = b"/".join(key + b"=" + b"25a" * 60 for key, _ in keys)
assert loose is not None and not loose.fullmatch(name)
""",
}


@pytest.mark.parametrize("what", NEARLY)
def test_a_text_that_nearly_matches_takes_no_time(what: str) -> None:
    """Else one call would stop a worker, and everybody whom it serves, for hours."""
    subprocess.run([sys.executable, "-c", NEARLY[what]], timeout=SOON_S, check=True)


def test_what_is_selected_is_what_the_usual_expression_selects() -> None:
    rng = chance("wildcards")
    selected = 0
    for _ in range(3000):
        segments = ["".join(rng.choices("ab.", k=rng.randint(0, 3))) for _ in range(rng.randint(1, 5))]
        begin = rng.randint(1, len(segments))
        parts = segments[:begin], ["", *segments[begin:]] if begin < len(segments) else [""]
        made = any_text_between(one_after_another(*parts))
        usual = ".*".join(segments)
        for _ in range(5):
            text = "".join(rng.choices("ab\n", weights=(5, 5, 1), k=rng.randint(0, 9)))
            expected = re.fullmatch(usual, text, re.DOTALL) is not None
            assert (re.fullmatch(made, text, re.DOTALL) is not None) is expected, (segments, text)
            selected += expected
    assert selected > 500
