"""The HTTP probes of an executor: whether it is alive, and whether it is ready."""

from __future__ import annotations

import httpx
import pytest

from dsms.executor.health import HUNG_S, Health, serve_health


@pytest.mark.parametrize(
    ("health", "path", "status"),
    [
        (Health("starting", 1.0), "/healthz", 200),
        (Health("starting", 1.0), "/readyz", 503),
        (Health("idle", 1.0), "/readyz", 200),
        (Health("running", 1.0), "/readyz", 200),
        (Health("recovering", 1.0), "/readyz", 200),
        (Health("running", HUNG_S + 1), "/healthz", 503),
        (Health("running", HUNG_S + 1), "/readyz", 503),
        (Health("running", 1.0), "/else", 404),
    ],
)
def test_health_answers(health: Health, path: str, status: int):
    server = serve_health("127.0.0.1", 0, lambda: health)
    try:
        answer = httpx.get(f"http://127.0.0.1:{server.server_address[1]}{path}", trust_env=False)
    finally:
        server.shutdown()
        server.server_close()
    assert answer.status_code == status
