"""The versions that the coordinator reports."""

from __future__ import annotations

import importlib.metadata
import tomllib
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from dsms.coordinator.http.api import create_app
from dsms.coordinator.registry.subjects import SchemaRegistry
from tests.support.fake_service import FakeService

PROJECT = Path(__file__).parents[3] / "pyproject.toml"


@pytest.fixture
def client() -> TestClient:
    return TestClient(create_app(FakeService(), SchemaRegistry(lambda _: None)))


def test_the_versions_of_system_and_protocol(client: TestClient) -> None:
    released = tomllib.loads(PROJECT.read_text())["project"]["version"]
    assert client.get("/v1/version").json() == {"system": released, "protocol": 1}


def test_a_system_that_is_not_installed_has_no_version(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata.Distribution, "from_name", classmethod(_missing))
    assert client.get("/v1/version").json() == {"system": None, "protocol": 1}


def _missing(cls: type, name: str) -> importlib.metadata.Distribution:
    raise importlib.metadata.PackageNotFoundError(name)
