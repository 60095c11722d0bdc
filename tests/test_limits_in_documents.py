"""Limits that documents state in numbers are those of the code. A change of one is a change of the page, too."""

from __future__ import annotations

from typing import Final

import pytest

from hms_cache_proxy.cache import compaction, layout, state, streams
from hms_cache_proxy.config import Config
from hms_cache_proxy.follower import affected, cycle, examiner, limits, pace, step, trailing
from hms_cache_proxy.methods import method_plan as plans
from hms_cache_proxy.methods import patience, verdicts, write_id_reloads
from hms_cache_proxy.methods.readers import filter_walk, key_index, partitions
from hms_cache_proxy.metric_files import RESERVED
from hms_cache_proxy.pipeline import ready_questions
from hms_cache_proxy.pipeline.advise import advice, patterns, questions
from hms_cache_proxy.processes import children
from hms_cache_proxy.recording import recorder
from hms_cache_proxy.security import cancelled_tokens
from hms_cache_proxy.server import acceptor, audit_lines, audit_log, inbox, line_log, spans, traces
from hms_cache_proxy.status import incidents, probe, view
from hms_cache_proxy.store.sql import marked_tables
from hms_cache_proxy.upstream import delegation
from hms_cache_proxy.wire import spec
from hms_cache_proxy.wire.message import MessageLimits
from tests.test_docs import PACKAGES, PAGES
from tests.written_figures import MAY_STAND, SETTING, key_of

PATHS = {key_of(path): path for path in (*PAGES, *PACKAGES)}
FOLLOWER = Config().follower
LONGEST_POLL_MS = FOLLOWER.poll_interval_max_ms
MILLI, SECOND = 10**6, 10**9

LIMITS: Final[tuple[tuple[str, str, tuple[float, ...]], ...]] = (
    ("advice.md", "and at least {:g} MiB", (advice.LEAST_CACHE_BYTES >> 20,)),
    ("advice.md", "single names, at most {:g};", (patterns.MOST,)),
    ("advice.md", "(host and user) {:g} times or more within a minute", (questions.REPEATED_A_MINUTE,)),
    ("advice.md", "more than {:g} KiB, more than once", (questions.LARGE_LISTING_BYTES >> 10,)),
    ("audit.md", "names more than {:g}: how many", (audit_lines.MOST_OBJECTS,)),
    ("audit.md", "request of more than {:g} KiB", (audit_lines.REQUEST_BYTES >> 10,)),
    (
        "audit.md",
        "more than {:,} calls, or {:g} MiB of requests",
        (line_log.WAITING_ITEMS, audit_log.WAITING_BYTES >> 20),
    ),
    ("benchmarks.md", "a busy one every {:g} ms", (FOLLOWER.poll_interval_min_ms,)),
    ("compatibility.md", "may be old for up to {:g} s", (cycle.WRITERS_INTERVAL_S,)),
    ("configuration.md", "nested {:g} levels deep", (spec.NESTING_DEPTH,)),
    ("configuration.md", "A method name may have {:g} bytes", (MessageLimits().method_bytes,)),
    ("consistency.md", "going to the metastore: {:g} ms at most", (patience.SHORT_NS / MILLI,)),
    ("consistency.md", "taken lately ({:g} ms at most)", (patience.LONG_NS / MILLI,)),
    ("consistency.md", "are looked at every {:g} s", (cycle.WRITERS_INTERVAL_S,)),
    ("consistency.md", "is read again, every {:g} s at most", (write_id_reloads.INTERVAL_S,)),
    ("consistency.md", "the window is {:g} s", (trailing.WINDOW_S,)),
    ("consistency.md", "With more than {:,} functions", (marked_tables.MOST,)),
    ("fleet.md", "at most N × {:g} answers", (1 / pace.LOOK_INTERVAL_S,)),
    ("fleet.md", "keeps at most {:,} of them", (cancelled_tokens.MOST,)),
    ("metrics.md", "must look at more than {:,} names", (filter_walk.MOVES,)),
    ("operations.md", "reserve {:g} MiB there", (sum(RESERVED.values()) >> 20,)),
    ("operations.md", "every {:g} ms at most (`follower.", (FOLLOWER.poll_interval_min_ms,)),
    ("operations.md", "every {:g} ms, which is two fifths of the longest", (LONGEST_POLL_MS * pace.RECENT_SHARE,)),
    ("operations.md", "every {:g} ms (`follower.poll_interval_max_ms`)", (LONGEST_POLL_MS,)),
    ("operations.md", "where there is something to read, every {:g} s", (cycle.WRITERS_INTERVAL_S,)),
    ("operations.md", "has shown life within {:g} s)", (view.READY_SILENT_NS / SECOND,)),
    ("operations.md", "have shown life within {:g} s)", (view.READY_SILENT_NS / SECOND,)),
    ("operations.md", "(asked every {:g} s)", (probe.INTERVAL_S,)),
    ("operations.md", "are the last {:g} failures", (incidents.MOST,)),
    ("operations.md", "grows to {:g} s", (children.BACKOFF_LAST_S,)),
    ("operations.md", "(at most {:,} wait)", (line_log.WAITING_ITEMS,)),
    ("operations.md", "at most {:,} calls per second", (traces.MOST_CALLS,)),
    ("operations.md", "`OTEL_BSP_MAX_QUEUE_SIZE` ({:,})", (spans.QUEUE_SPANS,)),
    ("pipeline.md", "less than {:g} MiB on average", (ready_questions.SMALL_FILE_BYTES >> 20,)),
    (
        "recording.md",
        "requests over {:g} MiB and results over {:g} MiB",
        (inbox.WINDOW_BYTES >> 20, recorder.HOLD_BYTES >> 20),
    ),
    ("recording.md", "replies up to {:g} MiB are passed on", (recorder.HOLD_BYTES >> 20,)),
    ("reliability.md", "above {:,}, which is always followed", (step.FEW_ROWS,)),
    ("reliability.md", "more than {:,} single partitions", (affected.MAX_NAMED,)),
    ("reliability.md", "more than {:,} tables", (step.MAX_TABLES_PER_STEP,)),
    ("reliability.md", "loads at most {:g} MiB of table objects", (limits.OBJECT_BYTES >> 20,)),
    ("reliability.md", "follows at most {:,} rows", (trailing.MOST_ROWS,)),
    ("reliability.md", "Caches of more than {:g} GiB", (compaction.COPIED_BYTES >> 30,)),
    ("reliability.md", "(at most {:g} ms", (acceptor.LONGEST_S * 1000,)),
    ("reliability.md", "Lists of more than {:,} elements", (plans.MOST_ELEMENTS,)),
    ("reliability.md", "names more than {:,} objects", (plans.MOST_TARGETS,)),
    ("reliability.md", "for more than {:,} names the reply", (partitions.JOINED_IN_SLICES,)),
    ("tokens.md", "at most {:,} of them; no more can be cancelled", (cancelled_tokens.MOST,)),
    ("kerberos.md", "in memory alone, at most {:,}", (delegation.MOST,)),
    ("authorization.md", "memory of each worker, at most {:,}", (verdicts.MOST,)),
    ("cache/README.md", "cut to {:g} bytes", (layout.KEY_BYTES,)),
    ("cache/README.md", "exactly {:g} bytes", (layout.KEY_BYTES,)),
    ("cache/README.md", "After {:g} s,", (streams.COPY_AFTER_NS / SECOND,)),
    ("cache/README.md", "in stored form ({:g} MiB at most)", (streams.COPIED_BYTES >> 20,)),
    ("cache/README.md", "an {:g} KiB mmap", (state.PAGE_BYTES >> 10,)),
    ("follower/README.md", "every metastore is checked every {:g} s", (examiner.CHECK_INTERVAL_S,)),
    (
        "methods/README.md",
        "beyond {:,} moves or {:g} s",
        (filter_walk.MOVES, streams.SEARCHED_NS / SECOND),
    ),
    ("methods/README.md", "blocks of {:g} names", (key_index.BLOCK,)),
    ("methods/README.md", "A key with more than {:,} values", (key_index.MOST_VALUES,)),
    ("server/README.md", "up to {:g} MiB in memory", (inbox.WINDOW_BYTES >> 20,)),
    ("server/README.md", "sees the first {:g} KiB only", (inbox.HEAD_BYTES >> 10,)),
)
"""Pages, sentences, and the numbers that belong in them."""
NOT_ONE_CONSTANT: Final = {("methods/README.md", "(100 ms at most)"), ("wire/README.md", "even of 100 MB")}


@pytest.mark.parametrize(("page", "sentence", "numbers"), LIMITS, ids=[f"{row[0]}-{row[1]}" for row in LIMITS])
def test_a_limit_is_that_of_the_code(page: str, sentence: str, numbers: tuple[float, ...]) -> None:
    expected = sentence.format(*numbers)
    assert expected in " ".join(PATHS[page].read_text("utf-8").split()), expected


def test_every_figure_that_is_a_limit_is_compared() -> None:
    compared = [(page, sentence.format(*numbers)) for page, sentence, numbers in LIMITS]
    for page, parts in MAY_STAND.items():
        for part in (part for part, why in parts.items() if why == SETTING):
            same = any(page == one and (part in text or text in part) for one, text in compared)
            assert same or (page, part) in NOT_ONE_CONSTANT, f"{page}: {part!r} belongs in LIMITS"
