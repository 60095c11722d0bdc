"""The advice as settings: a TOML file that `check-config` accepts.

Job: write it. Settings that only save space are set; settings that change answers are written as comments. Pure.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

from hms_cache_proxy.pipeline.advise.advice import MIB, SETTINGS, Advice
from hms_cache_proxy.pipeline.advise.wording import when
from hms_cache_proxy.plurals import counted


def snippet(advice: Advice) -> str:
    """The text of the file."""
    return "\n".join(_lines(advice)) + "\n"


def _lines(advice: Advice) -> Iterator[str]:
    overview, choice, made = advice.answers.overview, advice.choice, advice.patterns
    yield f"# Advice from {counted(overview.calls, 'call')}, {when(overview.first)} to {when(overview.last)} (UTC)."
    yield f"# Hit ratio of reads: {choice.now:.1%} in the log, {choice.best:.1%} with everything cached."
    if choice.reached < choice.wanted:
        yield f"# Caching more tables cannot give {choice.wanted:.1%}; these settings give {choice.reached:.1%}."
    else:
        yield f"# These settings give {choice.reached:.1%} for calls like these ({choice.wanted:.1%} is wanted)."
    yield "# Add them to your settings file, and check it: hms-cache-proxy check-config --config FILE"
    yield ""
    if made.include:
        yield "# A new table that matches none of these patterns is not cached."
    yield from _list("include", made.include)
    yield from _list("exclude", made.exclude)
    missed = Counter[str]()
    for one in advice.answers.relayed:
        missed[one.reason] += one.calls if one.outcome == "miss" else 0  # type: ignore[assignment]  # sampled: a share
    for reason, (setting, means) in SETTINGS.items():
        if missed[reason]:
            yield ""
            yield f"# {missed[reason] / overview.reads:.1%} of reads were missed for `{reason}`. But: {means}."
            yield f"#{setting}"
    yield ""
    yield "[cache]"
    yield f'max_bytes = "{advice.cache_bytes // MIB}MiB"'


def _list(key: str, values: tuple[str, ...]) -> Iterator[str]:
    if not values:
        yield f"{key} = []"
        return
    yield f"{key} = ["
    for value in values:
        yield f"  {json.dumps(value)},"
    yield "]"
