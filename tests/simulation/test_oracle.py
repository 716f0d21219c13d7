"""The oracle accepts what DuckDB computes, and notices each kind of wrong result."""

from __future__ import annotations

import pytest

from connectors.kafka.client.names import OP_HEADER, TS_HEADER
from dsms.simulation.verdict import Seen
from tests.algebra.cases import Case
from tests.algebra.query_leaves import Source
from tests.simulation.oracle import differing
from tests.support.oracle import Record

_EVENTS = (Record(1, {"k": 1, "n": 5}), Record(3, {"k": 2, "n": 7}), Record(4, {"k": 1}, deletion=True))
_SOURCE = Source(1, ("k", "n"), (), ("k",), 12, _EVENTS)
_CASE = Case(
    (_SOURCE,), (), "SELECT STREAMED k, n FROM S1 WHERE n > 4",
    "SELECT k, n FROM (SELECT k, n FROM H1 WHERE __from <= @T AND @T < __to) WHERE n > 4", ("k", "n"),
)  # fmt: skip


def _published(op: str, ts: int, key: str, value: str | None) -> Seen:
    headers = ((OP_HEADER, op.encode()), (TS_HEADER, str(ts).encode()))
    return Seen(key.encode(), None if value is None else value.encode(), headers)


_RIGHT = [
    _published("+", 1, '{"k":1}', '{"k":1,"n":5}'),
    _published("+", 3, '{"k":2}', '{"k":2,"n":7}'),
    _published("-", 4, '{"k":1}', None),
]


def test_the_right_result_is_accepted() -> None:
    assert list(differing(_CASE, {0: _RIGHT})) == []
    assert list(differing(_CASE, {0: _RIGHT[1:2], 1: [_RIGHT[0], _RIGHT[2]]})) == []


@pytest.mark.parametrize(
    ("wrong", "at"),
    [
        (_RIGHT[:2], 4),
        ([_RIGHT[0], _RIGHT[2]], 3),
        ([_published("+", 2, '{"k":1}', '{"k":1,"n":5}'), *_RIGHT[1:]], 1),
        ([_published("+", 1, '{"k":1}', '{"k":1,"n":6}'), *_RIGHT[1:]], 1),
        ([*_RIGHT, _published("+", 9, '{"k":3}', '{"k":3,"n":5}')], 9),
    ],
    ids=["a removal is lost", "a row is lost", "another instant", "another value", "a foreign row"],
)
def test_a_wrong_result_is_noticed(wrong: list[Seen], at: int) -> None:
    (problem,) = differing(_CASE, {0: wrong})
    assert problem.startswith(f"Q differs from DuckDB at {at}\n")
