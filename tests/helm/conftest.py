"""Fixtures that render the chart with helm."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "helm" / "dsms"
#: The values that must be set.
LEAST = {"kafka.bootstrap": "kafka:9092", "redis.url": "redis://redis:6379/0"}

Document = dict[str, Any]
Helm = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def helm() -> Helm:
    """Runs helm: the program of its wheel, or one built from source with go; without both, tests are skipped."""
    program = shutil.which("helm")
    if program is None:
        programs = ROOT / "integration" / "kube" / "programs.py"
        done = subprocess.run([sys.executable, programs, "helm"], capture_output=True, text=True, check=False, cwd=ROOT)
        if done.returncode != 0 and shutil.which("go") is None:
            pytest.skip("there is neither helm nor go, which helm can be built with")
        assert done.returncode == 0, done.stderr
        program = done.stdout.strip()

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([program, *arguments], capture_output=True, text=True, check=False, timeout=60)

    return run


@pytest.fixture
def attempt(helm: Helm) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs helm template with values by dotted name; None leaves out one of `LEAST`."""

    def render(values: dict[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
        wanted = {name: value for name, value in (LEAST | (values or {})).items() if value is not None}
        options = [part for name, value in wanted.items() for part in _option(name, value)]
        return helm("template", "rel", str(CHART), "--namespace", "streams", "--kube-version", "1.34.0", *options)

    return render


@pytest.fixture
def render(attempt: Callable[..., subprocess.CompletedProcess[str]]) -> Callable[..., dict[tuple[str, str], Document]]:
    """The documents that the chart renders with values by dotted name, by kind and name."""

    def documents(values: dict[str, Any] | None = None) -> dict[tuple[str, str], Document]:
        done = attempt(values)
        assert done.returncode == 0, done.stderr
        documents = [document for document in yaml.safe_load_all(done.stdout) if document]
        return {(document["kind"], document["metadata"]["name"]): document for document in documents}

    return documents


def _option(name: str, value: Any) -> tuple[str, str]:
    if isinstance(value, bool | int | float):
        return "--set", f"{name}={str(value).lower()}"
    return (
        ("--set-string", f"{name}={value}") if isinstance(value, str) else ("--set-json", f"{name}={json.dumps(value)}")
    )
