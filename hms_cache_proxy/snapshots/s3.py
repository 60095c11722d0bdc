"""Amazon S3 and stores with the same protocol: sets pyarrow's file system up for a slow or busy store.

Job: make a file system from a URI and the environment variables of AWS's tools. Must not know: what is stored.

By default, pyarrow gives up after three attempts, each of which fails after three seconds without a byte. Here a
request is tried more often and longer.

Credentials are never part of a URI, because URIs are logged. Owner: any process; needs pyarrow.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any, Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from hms_cache_proxy.errors import SnapshotError

SCHEMES: Final = ("s3", "s3a")
"""s3a is Hadoop's name for it."""

ATTEMPTS: Final = 10
"""Of each request. The pauses between them grow to some seconds, about ten in all."""

SILENCE_S: Final = 30.0
"""After this time without a byte, an attempt has failed. Completing a large upload can take a store long."""

CONNECT_S: Final = 10.0

CHECKSUMS: Final = "AWS_REQUEST_CHECKSUM_CALCULATION"
"""AWS's library appends checksums to uploads, which other stores may refuse. It can only be told by this variable.
Files have the checksums of the manifest anyway."""

NO_INSTANCE: Final = "AWS_EC2_METADATA_DISABLED"
"""AWS's library asks Amazon's virtual machines about themselves, and elsewhere waits for an answer in vain."""

CREDENTIALS: Final = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")

OPTIONS: Final = ("endpoint_override", "region", "scheme")
"""What may follow `?` in a URI."""

DEFAULT_REGION: Final = "us-east-1"
"""For other endpoints than Amazon's, most of which take any region."""


def file_system(uri: str) -> tuple[Any, str]:
    """The file system of a URI, and the path in it. Raises SnapshotError, OSError."""
    parts = urlsplit(uri)
    _check(uri, parts)
    options = {**_endpoint(), **dict(parse_qsl(parts.query))}
    elsewhere = "endpoint_override" in options
    if elsewhere:
        os.environ.setdefault(CHECKSUMS, "when_required")
    if elsewhere and os.environ.get(CREDENTIALS[0]):
        os.environ.setdefault(NO_INSTANCE, "true")
    if "region" not in options:
        options["region"] = _region(parts.netloc, elsewhere=elsewhere)
    credentials = tuple(os.environ.get(name) for name in CREDENTIALS)
    path = f"{parts.netloc}{unquote(parts.path)}"
    return _made(tuple(sorted(options.items())), ATTEMPTS, credentials), path.rstrip("/")


@lru_cache(maxsize=16)
def _made(options: tuple[tuple[str, str], ...], attempts: int, _credentials: tuple[str | None, ...]) -> Any:
    """One for all places of a process, with its connections."""
    import pyarrow.fs

    return pyarrow.fs.S3FileSystem(
        **dict(options),
        request_timeout=SILENCE_S,
        connect_timeout=CONNECT_S,
        retry_strategy=pyarrow.fs.AwsStandardS3RetryStrategy(max_attempts=attempts),
    )


def _check(uri: str, parts: SplitResult) -> None:
    """Raises SnapshotError, whose message does not repeat what may be a secret."""
    if "@" in parts.netloc:
        raise SnapshotError(
            f"the URI of a snapshot must not contain credentials: set {CREDENTIALS[0]} and {CREDENTIALS[1]}"
        )
    if not parts.netloc:
        raise SnapshotError(f"{uri} names no bucket")
    unknown = [name for name, _ in parse_qsl(parts.query, keep_blank_values=True) if name not in OPTIONS]
    if unknown:
        raise SnapshotError(f"the URI of a snapshot has the unknown option {unknown[0]}; known: {', '.join(OPTIONS)}")


def _endpoint() -> dict[str, str]:
    """The options that the environment gives."""
    url = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if not url:
        return {}
    parts = urlsplit(url)
    if not parts.scheme or not parts.netloc:
        raise SnapshotError("AWS_ENDPOINT_URL is not a URL: it needs a scheme and a host")
    return {"scheme": parts.scheme, "endpoint_override": parts.netloc}


def _region(bucket: str, *, elsewhere: bool) -> str:
    """Amazon says in which region a bucket is; elsewhere the environment does."""
    named = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if elsewhere:
        return named or DEFAULT_REGION
    try:
        return _at_amazon(bucket)
    except OSError:
        if not named:
            raise
        return named


@lru_cache(maxsize=64)
def _at_amazon(bucket: str) -> str:
    import pyarrow.fs

    return str(pyarrow.fs.resolve_s3_region(bucket))
