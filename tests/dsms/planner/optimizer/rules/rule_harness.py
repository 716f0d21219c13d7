"""Plans over two small sources, and the records that a lane publishes when it runs a plan over a history."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from unittest.mock import patch

import pyarrow as pa
from hypothesis import strategies as st

from dsms.model import logical
from dsms.model.properties import inputs
from dsms.model.replace_inputs import with_inputs
from dsms.model.schema import schema
from dsms.planner.optimizer.rules import Rule
from dsms.planner.physical.fragment_plan import PlannedQuery, compile_lane
from dsms.planner.physical.lane import Lane, Output
from dsms.runtime.stages.lane_step import read_stage, route, target_stage
from dsms.sql.binder.bind import plan_of
from operators.core.delta import BEGINNING, FROM, ORDER, Delta, union_all
from operators.core.operator import State
from operators.expressions import Column, Expression, Literal, call, column
from operators.streams.stream_output import OP
from tests.support.fake_environment import apply_all
from tests.support.plan_files import declarations

END = 24
Signed = tuple[str, dict[str, object], int]
#: The records of each topic.
History = dict[str, list[Signed]]
#: The catalog after the declarations of the plan files.
CATALOG, _ = apply_all(declarations("rules"))
KEYED, EVENTS = plan_of("T", CATALOG), plan_of("E", CATALOG)


def prefixed(node: logical.Node, prefix: str) -> logical.Project:
    return logical.Project(node, tuple((prefix + field.name, column(field)) for field in schema(node)))


def project(node: logical.Node, *names: str, **made: Expression) -> logical.Project:
    return logical.Project(node, (*((name, col(node, name)) for name in names), *made.items()))


def col(node: logical.Node, name: str) -> Column:
    return column(schema(node).field(name))


def big(value: int | None) -> Literal:
    return Literal(value, pa.int64())


def over(node: logical.Node, name: str, test: str = "greater", value: int = 0) -> Expression:
    return call(test, col(node, name), big(value))


def where(node: logical.Node, *predicates: Expression) -> logical.Filter:
    return logical.Filter(node, predicates[0] if len(predicates) == 1 else call("and", *predicates))


def everywhere(rule: Rule, node: logical.Node) -> logical.Node:
    """Applies the rule once to each node that it can rewrite, inputs first."""
    over_rewritten = with_inputs(node, tuple(everywhere(rule, below) for below in inputs(node)))
    return rule(over_rewritten) or over_rewritten


def histories() -> st.SearchStrategy[History]:
    rows = st.fixed_dictionaries(
        {
            "id": st.integers(0, 2),
            "a": st.sampled_from([None, -1, 0, 1, 2, 3]),
            "b": st.sampled_from([None, "x", "y"]),
        }
    )
    instants = st.integers(0, 12)
    upserts = st.tuples(st.sampled_from("+++-"), rows, instants)
    events = st.tuples(st.just("+"), rows, instants)
    return st.fixed_dictionaries({"t": st.lists(upserts, max_size=9), "e": st.lists(events, max_size=9)})


@dataclass(frozen=True)
class Published:
    """The changes as a bag of (instant, op, row), and the records of rows in fault."""

    changes: Counter[tuple[object, ...]]
    faults: frozenset[int]


def published(
    node: logical.Node, plan: logical.Node, history: History, cuts: tuple[int, ...] = (5,), targets: int = 1
) -> Published:
    """The records that the lane of `node` publishes if it runs `plan`. Its columns and key are those of `node`."""
    with patch("dsms.planner.physical.fragment_plan.optimize", lambda _: plan):
        lane = compile_lane("lane", [PlannedQuery("lane", "lane", node)])
    (output,) = lane.outputs
    state: list[dict[int, tuple[State, ...]]] = [{} for _ in range(targets)]
    changes: Counter[tuple[object, ...]] = Counter()
    faults: set[int] = set()
    edges = [BEGINNING, *cuts, END]
    for start, end in zip(edges, edges[1:], strict=False):
        arrived: list[dict[int, list[Delta]]] = [defaultdict(list) for _ in range(targets)]
        for leaf, scanned in lane.sources.items():
            delta = Delta.of(history[scanned.topic], scanned.schema).between(start, end)
            _send(lane, read_stage(lane, leaf, delta), arrived, 0, faults)
        for stage in range(1, lane.flow.stages + 1):
            for target in range(targets):
                came = {at: union_all(parts) for at, parts in arrived[target].items()}
                moves = dict.fromkeys(lane.sources, start), dict.fromkeys(lane.sources, end)
                step = target_stage(lane, (stage, target), came, state[target], moves)
                state[target] |= step.state
                _send(lane, step, arrived, target, faults)
                for frame in step.changes.values():
                    rows = frame.select(FROM, OP, *sorted(set(output.schema.names))).rows()
                    changes.update(tuple(map(repr, _of_key(row, output))) for row in rows)
    return Published(changes, frozenset(faults))


def _of_key(row: tuple[object, ...], output: Output) -> tuple[object, ...]:
    """The row; of a deletion in a keyed result only the key."""
    if row[1] != "-" or not output.keys:
        return row
    named = dict(zip(sorted(output.schema.names), row[2:], strict=True))
    return (*row[:2], *(named.get(key) for key in output.keys))


def _send(lane: Lane, step, arrived: list[dict[int, list[Delta]]], target: int, faults: set[int]) -> None:  # type: ignore[no-untyped-def]
    for exchange, delta in step.sent.items():
        for to, part in enumerate(route(lane.flow.exchanges[exchange], delta, len(arrived), target)):
            arrived[to][exchange].append(part)
    for frame in step.faults.values():
        faults.update(frame[ORDER].to_list())
