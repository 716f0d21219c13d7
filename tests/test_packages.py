"""The check of packages for known faults fails for a fault, and only reports packages that cannot be checked."""

from __future__ import annotations

import importlib.util
import json
import sys
import threading
from collections.abc import Iterator
from datetime import date
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType

import pytest

from dsms.local.ports import free_port

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_packages", ROOT / "scripts" / "check_packages.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look it up
    spec.loader.exec_module(module)
    return module


CLEAN = {"name": "a", "version": "1.0", "vulns": []}
FAULT = {"id": "PYSEC-1", "aliases": ["CVE-2026-1", "GHSA-x"], "fix_versions": ["1.2", "2.0"], "description": "…"}
FAULTY = {"name": "b", "version": "1.1", "vulns": [FAULT, {"id": "PYSEC-2", "fix_versions": []}]}
SKIPPED = {"name": "c", "skip_reason": "not found"}


OSV_FAULT = {
    "id": "OSV-1",
    "aliases": ["CVE-1"],
    "summary": "x",
    "published": "2026-01-01T00:00:00Z",
    "affected": [
        {
            "package": {"name": "faulty", "ecosystem": "PyPI"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "1.1"}]}],
            "versions": ["1.0"],
        }
    ],
}


def said(*packages: object) -> str:
    return json.dumps({"dependencies": packages, "fixes": []})


def test_a_known_fault_fails_whatever_else_was_not_checked(script: ModuleType) -> None:
    found = script.verdict(said(CLEAN, FAULTY, SKIPPED), "WARNING")
    assert found.outcome == "faulty"
    assert found.lines == (
        "b 1.1 has the known fault CVE-2026-1, GHSA-x, PYSEC-1: fixed in 1.2, 2.0",
        "b 1.1 has the known fault PYSEC-2: no version fixes it",
    )


def test_accepted_vulnerability_is_not_reported(script: ModuleType) -> None:
    assert len(script.verdict(said(FAULTY), "", {"CVE-2026-1": "we never call it"}).lines) == 1
    assert script.verdict(said(FAULTY), "", {"CVE-2026-1": "…", "PYSEC-2": "…"}).outcome == "clean"


@pytest.mark.parametrize(
    ("output", "errors", "line"),
    [
        ("", "Traceback\n  File x\nConnectionError: no such host", "ConnectionError: no such host"),
        ("", "", "it said nothing"),
        ("<html>", "x", ": x"),
        ("[]", "x", ": x"),
        (said(CLEAN, SKIPPED), "", "1 of 2 packages could not be checked"),
        (said(), "", "0 of 0 packages could not be checked"),
    ],
)
def test_failed_audit_is_reported_as_unchecked(script: ModuleType, output: str, errors: str, line: str) -> None:
    found = script.verdict(output, errors)
    assert found.outcome == "unchecked" and line in found.lines[0]


def test_clean_audit_is_repeated_once_a_day(script: ModuleType) -> None:
    assert script.verdict(said(CLEAN, CLEAN), "").outcome == "clean"
    stamps = {script.stamp(lock, day) for lock in (b"a", b"b") for day in (date(2026, 1, 1), date(2026, 1, 2))}
    assert len(stamps) == 4 and script.stamp(b"a", date(2026, 1, 1)) in stamps


@pytest.mark.parametrize(
    ("output", "errors", "code"), [(said(FAULTY), "", 1), (said(CLEAN), "", 0), ("", "ConnectionError", 0)]
)
def test_only_a_fault_ends_with_an_error(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, output: str, errors: str, code: int
) -> None:
    monkeypatch.setattr(script, "BUILD", tmp_path / "build")
    monkeypatch.setattr(script, "write_sbom", lambda: ROOT / "build" / "sbom.json")
    asked: list[int] = []

    def audited() -> object:
        asked.append(1)
        return script.verdict(output, errors)

    monkeypatch.setattr(script, "audited", audited)
    assert [script.main(), script.main()] == [code, code]
    assert len(asked) == (1 if output == said(CLEAN) else 2)


def test_the_list_of_packages_has_all_of_the_lock(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(script, "BUILD", tmp_path)
    document = json.loads(script.write_sbom().read_text())
    assert document["bomFormat"] == "CycloneDX" and document["metadata"]["component"]["name"] == "dsms"
    lines = [line.split(";")[0].split() for line in (ROOT / "requirements.lock").read_text().splitlines()]
    locked = {line[0] for line in lines if line and not line[0].startswith("#")}
    assert {f"{part['name']}=={part['version']}" for part in document["components"]} == locked


@pytest.fixture
def osv() -> Iterator[str]:
    """A database of faults that answers like OSV, in which version 1.0 of "faulty" has a fault."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            has_fault = asked["package"]["name"] == "faulty"
            body = json.dumps({"vulns": [OSV_FAULT]} if has_fault else {}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1/query"
    server.shutdown()
    server.server_close()


def test_pip_audit_is_understood(script: ModuleType, osv: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    lock = tmp_path / "lock"
    lock.write_text("faulty==1.0\nsound==2.0\n")
    found = script.audited(lock, osv)
    assert (found.outcome, found.lines) == ("faulty", ("faulty 1.0 has the known fault CVE-1, OSV-1: fixed in 1.1",))
    lock.write_text("sound==2.0\n")
    assert script.audited(lock, osv).outcome == "clean"
    assert script.audited(lock, f"http://127.0.0.1:{free_port()}/").outcome == "unchecked"
