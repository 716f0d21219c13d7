"""The archive of Spark's classes: there is one for each version of Java and Spark, and executors run without it too."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dsms.spark.compat import class_archive
from dsms.spark.compat.class_archive import archive, home, make, options


def java(home: Path, release: str) -> dict[str, str]:
    home.mkdir(parents=True, exist_ok=True)
    (home / "release").write_text(release)
    return {"JAVA_HOME": str(home), "DSMS_CACHE": str(home.parent / "cache")}


def test_another_java_has_another_archive(tmp_path: Path) -> None:
    first = archive(java(tmp_path / "a", 'JAVA_VERSION="17.0.1"'))
    assert first == archive(java(tmp_path / "a", 'JAVA_VERSION="17.0.1"'))
    others = [archive(java(tmp_path / "a", 'JAVA_VERSION="17.0.2"')), archive(java(tmp_path / "b", ""))]
    assert len({first, *others}) == 3 and first is not None and first.parent.parent == tmp_path / "cache" / "spark"


def test_class_archive_is_used_if_it_exists(tmp_path: Path) -> None:
    environ = java(tmp_path / "a", "")
    assert options(environ) == ""
    path = archive(environ)
    assert path is not None
    path.parent.mkdir(parents=True)
    path.touch()
    assert home(environ) is None
    (path.parent / "home").mkdir()
    assert home(environ) == path.parent / "home"
    assert f"-XX:SharedArchiveFile={path} " in options(environ) and make(environ)


def test_failed_archive_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environ = java(tmp_path / "a", "")
    monkeypatch.setattr(class_archive.sys, "executable", "/bin/false" if sys.platform != "darwin" else "/usr/bin/false")
    assert not make(environ)
    assert list((tmp_path / "cache" / "spark").iterdir()) == []


def test_no_archive_without_java() -> None:
    assert archive({"PATH": ""}) is None and not make({"PATH": ""})
