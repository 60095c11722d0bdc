"""Errors reach the process that waits for the one in which they occurred."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from hms_cache_proxy.errors import CacheFull, ConfigError, LimitError, ProxyError, Unfit, UpstreamError

ERRORS: tuple[ProxyError, ...] = (
    LimitError("too long", limit="max_message_bytes"),
    UpstreamError("gone", sent=True),
    Unfit("no name", partition=b"a=1"),
    CacheFull("no room"),
    ConfigError("workers: not a number"),
)


def fail(number: int) -> None:
    raise ERRORS[number]


def told(error: BaseException | None) -> tuple[object, ...]:
    """All that it says; the cause is the other process's traceback."""
    assert error is not None
    return type(error), error.args, {name: value for name, value in vars(error).items() if name != "__notes__"}


def test_an_error_reaches_another_process_as_it_is() -> None:
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        found = [pool.submit(fail, number).exception() for number in range(len(ERRORS))]
    assert [told(error) for error in found] == [told(error) for error in ERRORS]
