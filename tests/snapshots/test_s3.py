"""Which endpoint and region a URI and the environment give. With a real store: tests/pipeline/test_object_store.py."""

from __future__ import annotations

import os

import pytest

from hms_cache_proxy.errors import SnapshotError
from hms_cache_proxy.snapshots import s3
from hms_cache_proxy.snapshots.place import Place


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("s3://key:secret@bucket/a", "must not contain credentials: set AWS_ACCESS_KEY_ID"),
        ("s3:///a", "names no bucket"),
        ("s3://bucket/a?access_key=1", "the unknown option access_key"),
    ],
)
def test_uris_that_are_refused(uri: str, words: str) -> None:
    with pytest.raises(SnapshotError, match=words) as caught:
        Place(uri)
    assert "secret@" not in str(caught.value)


def test_the_uri_precedes_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"AWS_ENDPOINT_URL": "https://one.example.com:9000", "AWS_REGION": "eu-1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3", raising=False)
    monkeypatch.setenv(s3.CHECKSUMS, "when_supported")
    monkeypatch.setenv(s3.NO_INSTANCE, "true")
    files, path = s3.file_system("s3a://bucket/a%20b/")
    assert (files.region, path) == ("eu-1", "bucket/a b")
    files, _ = s3.file_system("s3://bucket?region=eu-2&scheme=http&endpoint_override=two.example.com")
    assert files.region == "eu-2" and os.environ[s3.CHECKSUMS] == "when_supported", "the operator's choice stays"
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "nonsense")
    with pytest.raises(SnapshotError, match="AWS_ENDPOINT_URL is not a URL"):
        Place("s3://bucket")
