"""The cache of downloaded programs: usable without a network, and never incomplete."""

from pathlib import Path

import pytest

from dsms.local.artifacts import Resolver
from dsms.local.versions import versions
from operators.core.errors import ConfigError, ExternalError


def fake_java(directory: Path, script: str) -> Path:
    program = directory / "java"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return program


def entry(cache: Path) -> Path:
    return cache / "jars" / f"{versions().kafka.module}-{versions().kafka.revision}"


FETCHES = """\
for a; do last=$previous; previous=$a; [ "$last" = -retrieve ] && echo jar > "$(dirname "$a")/x.jar"; done
echo 'downloading https://repo.example/x-1.jar ...'
"""


def test_cached_jars_need_neither_java_nor_network(tmp_path: Path):
    entry(tmp_path).mkdir(parents=True)
    assert Resolver(tmp_path / "no-java", tmp_path, {}).broker_jars() == entry(tmp_path)


def test_a_download_is_reported_and_cached(tmp_path: Path):
    reported: list[str] = []
    jars = Resolver(fake_java(tmp_path, FETCHES), tmp_path / "cache", {}).broker_jars(reported.append)
    assert [file.name for file in jars.iterdir()] == ["x.jar"]
    assert reported[0].startswith("downloading org.apache.kafka:kafka_2.13:")
    assert reported[1:] == ["downloading x-1.jar"]
    assert list(jars.parent.iterdir()) == [jars]


def test_a_failed_download_leaves_nothing_and_gives_the_reason(tmp_path: Path):
    java = fake_java(tmp_path, 'echo "Server access error: connection refused"; exit 1')
    with pytest.raises(ExternalError, match=r"(?s)could not download.*DSMS_MAVEN_MIRROR.*connection refused"):
        Resolver(java, tmp_path / "cache", {}).broker_jars()
    assert list((tmp_path / "cache" / "jars").iterdir()) == []


def test_the_proxy_password_is_not_on_the_command_line(tmp_path: Path):
    java = fake_java(tmp_path, f'echo "$@" > {tmp_path}/arguments; stat -c %a "${{1#@}}" > {tmp_path}/mode\n{FETCHES}')
    Resolver(java, tmp_path / "cache", {"HTTPS_PROXY": "http://me:hidden@gate:1"}).broker_jars()
    assert "hidden" not in (tmp_path / "arguments").read_text()
    assert (tmp_path / "mode").read_text().strip() == "600"


def test_a_mirror_becomes_ivy_settings(tmp_path: Path):
    java = fake_java(
        tmp_path, f'for a; do case "$a" in *ivysettings.xml) cp "$a" {tmp_path}/seen.xml;; esac; done\n{FETCHES}'
    )
    Resolver(java, tmp_path / "cache", {"DSMS_MAVEN_MIRROR": "https://mirror.example/maven"}).broker_jars()
    assert 'root="https://mirror.example/maven/"' in (tmp_path / "seen.xml").read_text()


def test_missing_ivy_settings_are_refused(tmp_path: Path):
    with pytest.raises(ConfigError, match='DSMS_IVY_SETTINGS is "/nowhere.xml", which is not a file'):
        Resolver(fake_java(tmp_path, FETCHES), tmp_path, {"DSMS_IVY_SETTINGS": "/nowhere.xml"}).broker_jars()
