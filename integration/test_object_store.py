"""The object store with a real S3-compatible server."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from connectors.objects.store import ObjectStore, Stored
from dsms.local.ports import free_port
from integration.s3_server import BUCKET, s3_server
from operators.core.errors import ExternalError

pytestmark = pytest.mark.services
LARGE = bytes(range(256)) * 4096 * 40  # 40 MB: in several parts


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with s3_server(tmp_path_factory.mktemp("s3")) as environment:
        yield environment


@pytest.fixture
def server(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return environment


def test_objects_are_written_listed_copied_and_removed(server: dict[str, str]) -> None:
    objects = ObjectStore(f"s3://{BUCKET}/one")
    pieces = (LARGE[at : at + 9_000_000] for at in range(0, len(LARGE), 9_000_000))
    assert objects.write("a/large", pieces) == Stored(len(LARGE), hashlib.sha256(LARGE).hexdigest())
    assert objects.write("a/empty", []) == Stored(0, hashlib.sha256().hexdigest())
    objects.copy("a/large", "b/copy")
    assert objects.names("a") == {"a/large": len(LARGE), "a/empty": 0}
    assert b"".join(objects.read("b/copy")) == LARGE
    objects.delete(["a/large", "a/never"])
    assert objects.names("") == {"a/empty": 0, "b/copy": len(LARGE)}


@pytest.mark.parametrize("size", [10, len(LARGE)])
def test_unfinished_object_does_not_exist(server: dict[str, str], size: int) -> None:
    def broken() -> Iterator[bytes]:
        yield LARGE[:size]
        raise ExternalError("redis went away")

    objects = ObjectStore(f"s3://{BUCKET}/two")
    with pytest.raises(ExternalError, match="redis went away"):
        objects.write("a", broken())
    assert objects.names("") == {}


def test_missing_object_is_permanent_and_missing_bucket_retryable(server: dict[str, str]) -> None:
    with pytest.raises(ExternalError, match="it does not exist") as caught:
        list(ObjectStore(f"s3://{BUCKET}").read("never"))
    assert not caught.value.retryable
    with pytest.raises(ExternalError) as caught:
        ObjectStore("s3://no-such-bucket/x").names("")
    assert caught.value.retryable, "an empty list would mean that there are no checkpoints"


def test_a_server_that_does_not_answer_is_waited_for(server: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    with pytest.raises(ExternalError) as caught:
        ObjectStore(f"s3://{BUCKET}/x").names("")
    assert caught.value.retryable
    assert server["AWS_SECRET_ACCESS_KEY"] not in str(caught.value)


def test_refused_credentials_are_reported_without_the_secret(
    server: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(ExternalError, match="(?i)credentials") as caught:
        ObjectStore(f"s3://{BUCKET}/x").names("")
    assert caught.value.retryable
