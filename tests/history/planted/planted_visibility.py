"""Faults of `authorization = "learned"`: tests/visibility finds each. `sitecustomize` imports this module."""

from __future__ import annotations

from typing import Any

from sitecustomize import bug, swap


@bug
def verdict_outlives_changes() -> None:
    """Neither a change of an object nor one of a right ends a verdict."""
    from hms_cache_proxy.cache.replies import stand
    from hms_cache_proxy.methods import learned

    swap(learned, "unchanged", lambda judged, depends, snapshot: stand(judged.verdicts))


@bug
def verdict_of_any_user() -> None:
    """What one user was shown is shown to all."""
    from hms_cache_proxy.methods import learned
    from hms_cache_proxy.methods.hot import HotPath

    asked = learned.question  # type: ignore[attr-defined]  # the name that it uses

    def of_all(method: str, user: bytes, request: bytes, depends: Any, *, parts: bool) -> Any:
        return asked(method, b"", request, depends, parts=parts)

    swap(learned, "question", of_all)
    swap(HotPath, "key", lambda self, session, message, seqid: message[:seqid] + message[seqid + 4 :])
