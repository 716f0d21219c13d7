"""The tables in docs/security.md agree with the code."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from dsms.coordinator.http.api import ROUTERS, routes_of
from dsms.coordinator.http.backend import Backend
from dsms.coordinator.http.guard import OPEN, RouteRoles
from dsms.coordinator.registry.subjects import SchemaRegistry
from dsms.model.limits import Limits
from dsms.model.roles import ROLES, Role
from dsms.statements.registry import STATEMENTS
from tests.support.fake_service import FakeService

DOCUMENT = Path(__file__).parents[3] / "docs" / "security.md"
#: The names of statements whose first words belong to another kind, and which are not a form of that kind.
CALLED = {
    "CreatePythonAggregate": "CREATE AGGREGATE … LANGUAGE PYTHON",
    "AlterExecutor": "ALTER EXECUTOR",
    "ShowEntities": "SHOW OPERATORS, QUEUES, SYNOPSES",
    "ShowExecutors": "SHOW EXECUTORS",
    "ShowSubplans": "SHOW SUBPLANS",
    "ExplainAnalyze": "EXPLAIN ANALYZE",
    "Select": "SELECT",
}
HEAD = "| role | statements and calls |\n|---|---|\n"
_WIDTH = 150


def statements(role: Role) -> str:
    """The statements that need the role, by their first words."""
    kinds = [kind for kind in STATEMENTS if kind.role == role]
    words = [" ".join(begin) for kind in kinds for begin in kind.starts or [[CALLED.get(kind.statement.__name__, "")]]]
    return ", ".join(dict.fromkeys(filter(None, words)))


def calls(role: Role) -> str:
    """The calls that need the role in place of the usual one for their method."""
    backend: Any = Backend(FakeService(), SchemaRegistry(lambda _: None), None, None)
    routes = routes_of(router(backend) for router in ROUTERS)
    roles = RouteRoles(routes)
    asked = [(method, route.path) for route in routes for method in sorted(route.methods or ()) if method != "HEAD"]
    needing = [
        f"`{method} {re.sub(':path', '', path)}`"
        for method, path in asked
        if path not in OPEN
        and roles.needed({"type": "http", "method": method, "path": path}) == role
        and role != ("reader" if method == "GET" else "writer")
    ]
    usual = {"reader": ["every GET"], "writer": ["every other call"], "administrator": []}[role]
    return ", ".join(usual + needing)


def lines(role: Role) -> Iterator[str]:
    """The rows of a role. Only the first one has its name."""
    first = f"`{role}`"
    for text in (statements(role), calls(role)):
        for part in textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False):
            yield f"| {first} | {part} |\n"
            first = ""


def test_roles(request: pytest.FixtureRequest) -> None:
    """`--update-golden` rewrites the table."""
    table = HEAD + "".join(line for role in ROLES for line in lines(role))
    text = DOCUMENT.read_text()
    if request.config.getoption("--update-golden"):
        begin = text.index(HEAD)
        text = text[:begin] + table + text[text.index("\n\n", begin) + 1 :]
        DOCUMENT.write_text(text)
    assert table in text


def test_every_limit_is_explained() -> None:
    text = DOCUMENT.read_text().split("## What each limit protects")[1].split("\n## ")[0]
    assert sorted(re.findall(r"`([a-z_]+)`", text)) == sorted(field.name for field in fields(Limits))
