"""The tables and users with the most calls, of all workers together.

Job: add up what the workers have written (server/most_asked.py). Must not know: how they count. Owner: the supervisor's
loop; the files are small.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

from hms_cache_proxy.server.space_saving import SHOWN


def added_up(files: Iterable[Path]) -> dict[str, dict[str, list[dict[str, object]]]]:
    """By kind (tables, users) and measure (calls, misses, seconds): names and numbers, the highest first."""
    sums: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for file in files:
        try:
            kinds = json.loads(file.read_text())
        except (FileNotFoundError, ValueError):  # not written yet, or not whole after a crash of the machine
            continue
        for kind, measures in kinds.items():
            for measure, numbers in measures.items():
                sums[kind][measure].update(numbers)
    return {
        kind: {
            measure: [{"name": name, "number": number} for name, number in numbers.most_common(SHOWN)]
            for measure, numbers in measures.items()
        }
        for kind, measures in sums.items()
    }
