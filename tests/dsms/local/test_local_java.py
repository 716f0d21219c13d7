"""Finding Java, and passing it the proxy settings of the environment."""

from pathlib import Path

import pytest

from dsms.local.java import find_java, java_major
from dsms.local.java_proxy import proxy_options
from operators.core.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ('openjdk version "21" 2023-09-19', 21),
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment', 17),
        ('java version "1.8.0_401"', 8),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "11.0.2"', 11),
        ("no java here", None),
        ("", None),
    ],
)
def test_the_major_version(text: str, major: int | None):
    assert java_major(text) == major


def fake_java(home: Path, version: str) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return program


def test_java_home_comes_before_path(tmp_path: Path):
    at_home = fake_java(tmp_path / "home", "21.0.1")
    on_path = fake_java(tmp_path / "path", "17.0.1")
    assert find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(on_path.parent)}) == at_home


def test_an_old_java_home_is_skipped(tmp_path: Path):
    fake_java(tmp_path / "home", "11.0.1")
    on_path = fake_java(tmp_path / "path", "17.0.1")
    assert find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(on_path.parent)}) == on_path


def test_only_an_old_java_is_an_error_with_a_hint(tmp_path: Path):
    fake_java(tmp_path, "1.8.0_401")
    with pytest.raises(
        ConfigError, match=r'java 17 or newer is needed: ".*bin/java" is version 8; install it with: \w'
    ):
        find_java({"JAVA_HOME": str(tmp_path), "PATH": ""})


def test_no_java_is_an_error_with_a_hint(tmp_path: Path):
    with pytest.raises(ConfigError, match="none found in JAVA_HOME or PATH; install it with"):
        find_java({"PATH": str(tmp_path)})


@pytest.mark.parametrize(
    ("environ", "options"),
    [
        ({}, []),
        ({"NO_PROXY": "localhost"}, []),
        ({"HTTP_PROXY": "http://gate:8080"}, ["-Dhttp.proxyHost=gate", "-Dhttp.proxyPort=8080"]),
        ({"https_proxy": "gate:3128"}, ["-Dhttps.proxyHost=gate", "-Dhttps.proxyPort=3128"]),
        ({"HTTPS_PROXY": "http://gate"}, ["-Dhttps.proxyHost=gate", "-Dhttps.proxyPort=80"]),
        (
            {"HTTPS_PROXY": "http://gate:1", "no_proxy": "localhost, .corp.example ,10.0.0.1"},
            [
                "-Dhttps.proxyHost=gate",
                "-Dhttps.proxyPort=1",
                "-Dhttp.nonProxyHosts=localhost|*.corp.example|10.0.0.1",
            ],
        ),
        (
            {"HTTPS_PROXY": "http://me:a%20b@gate:1"},
            [
                "-Dhttps.proxyHost=gate",
                "-Dhttps.proxyPort=1",
                "-Dhttp.proxyUser=me",
                "-Dhttp.proxyPassword=a b",
                "-Djdk.http.auth.tunneling.disabledSchemes=",
            ],
        ),
    ],
)
def test_proxy_settings_as_java_options(environ: dict[str, str], options: list[str]):
    assert proxy_options(environ) == options


def test_a_proxy_without_a_host_is_refused():
    with pytest.raises(ConfigError, match="which has no host; write it as"):
        proxy_options({"HTTPS_PROXY": "http://"})
