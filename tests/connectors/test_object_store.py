"""Objects in a directory; the same over an S3-compatible server is in `integration/test_object_store.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from connectors.objects.store import ObjectStore, Stored
from operators.core.errors import ConfigError, ExternalError


def test_objects_are_written_listed_copied_and_removed(tmp_path: Path) -> None:
    objects = ObjectStore(f"file://{tmp_path}")
    stored = objects.write("a/b/one", [b"12", b"3"])
    assert stored == Stored(3, "a665a45920422f9d417e4867efdc4fb8a04a1f3fff1fa07e998e86f7f7a27ae3")  # sha256sum of 123
    objects.copy("a/b/one", "c/two")
    assert objects.names("a") == {"a/b/one": 3}
    assert b"".join(objects.read("c/two")) == b"123"
    objects.delete(["a/b/one", "a/never"])
    assert objects.names("") == {"c/two": 3}


def test_missing_directory_is_an_error_and_not_an_empty_store(tmp_path: Path) -> None:
    objects = ObjectStore(str(tmp_path / "mounted"))
    for act in (lambda: objects.names("a"), lambda: objects.write("a", [b"1"]), lambda: list(objects.read("a"))):
        with pytest.raises(ExternalError, match='mounted" does not exist; create or mount it') as caught:
            act()
        assert caught.value.retryable


def test_missing_object_is_a_permanent_error(tmp_path: Path) -> None:
    with pytest.raises(ExternalError, match='reading "a" .* failed: it does not exist') as caught:
        list(ObjectStore(str(tmp_path)).read("a"))
    assert not caught.value.retryable


@pytest.mark.parametrize("url", ["s3://key:secret@bucket/x", "s3://key@bucket"])
def test_credentials_in_a_url_are_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(ConfigError, match="must not hold credentials") as caught:
        ObjectStore(url)
    assert "secret" not in str(caught.value)


def test_an_unknown_kind_of_store_is_refused() -> None:
    with pytest.raises(ConfigError, match='"gopher://x/y" is not the URL of a store'):
        ObjectStore("gopher://x/y")
