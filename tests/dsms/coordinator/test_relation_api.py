"""The HTTP calls for relations and for loading tables, and the command that sends a file."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from dsms.cli.main import run
from dsms.coordinator.http.api import create_app
from dsms.coordinator.registry.subjects import SchemaRegistry
from tests.support.fake_service import FakeService
from tests.support.http_server_thread import serving

ROOM = {"columns": ["room"], "types": ["VARCHAR"]}


@pytest.fixture(scope="module")
def service() -> FakeService:
    return FakeService()


@pytest.fixture(scope="module")
def url(service: FakeService) -> Iterator[str]:
    with serving(create_app(service, SchemaRegistry())) as url:
        yield url


@pytest.mark.parametrize(
    ("path", "status", "body"),
    [
        (
            "hot/relation",
            200,
            {"name": "hot", "at": 7, **ROOM, "rows": [["a"], ["b"]], "total": 2},
        ),
        (
            "hot/relation?at=3&limit=1",
            200,
            {"name": "hot", "at": 3, **ROOM, "rows": [["a"]], "total": 2},
        ),
        (
            "hot/relation?at=1970-01-01T00:00:00.005Z",
            200,
            {"name": "hot", "at": 5, **ROOM, "rows": [["a"], ["b"]], "total": 2},
        ),
    ],
)
def test_relation(url: str, path: str, status: int, body: dict) -> None:
    answer = httpx.get(f"{url}/v1/queries/{path}", trust_env=False)
    assert (answer.status_code, answer.json()) == (status, body)


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("hot/relation?at=8", 400, "instant 8 is not final yet"),
        ("hot/relation?at=x", 400, "at: 'x' is not an instant; give a whole number, or a time in ISO 8601"),
        ("cold/relation", 404, "cold"),
    ],
)
def test_refused(url: str, path: str, status: int, message: str) -> None:
    answer = httpx.get(f"{url}/v1/queries/{path}", trust_env=False)
    assert answer.status_code == status
    assert message in answer.json()["error"]["message"]


@pytest.mark.parametrize("options", [[], ["--file-format", "csv"]])
def test_load_sends_the_file(
    service: FakeService, url: str, tmp_path: Path, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rooms.csv"
    body = b"id,name\n" + b"1,hall\n" * 400_000
    file.write_bytes(body)
    assert run(["load", "rooms", str(file), "--coordinator", url, *options]) == 0
    assert service.loaded.pop() == ("rooms", body, "csv")
    assert "1 row at instant 7" in capsys.readouterr().out


def test_load_wants_a_format(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "rooms.xml"
    file.touch()
    assert run(["load", "rooms", str(file), "--coordinator", url]) == 1
    assert 'unknown file format "xml"' in capsys.readouterr().err
