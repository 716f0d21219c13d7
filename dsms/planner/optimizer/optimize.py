"""Rewrites a plan by rules into an equal, cheaper one. This is a pure function, so all processes get the same plan."""

from __future__ import annotations

from dataclasses import dataclass, field

from dsms.model import logical
from dsms.model.fingerprint import fingerprint
from dsms.model.identity_memo import memoized_by_identity
from dsms.model.properties import append_only, inputs, keys
from dsms.model.replace_inputs import with_inputs
from dsms.model.schema import schema
from dsms.planner.optimizer.algebra.arrival_order import depends_on_arrival
from dsms.planner.optimizer.rules import REORDERING, RULES, WHOLE_PLAN_RULES, Rule
from dsms.planner.optimizer.rules.join_order import join_order
from dsms.planner.optimizer.rules.project_push_downs import PROJECT_PUSH_DOWNS

#: Bounds that no plan should reach. When one is reached, rewriting stops, and the current plan, which is equal too, is
#: used.
_MAX_STEPS, _MAX_ROUNDS = 5_000, 5
_KEEP_ORDER = tuple(rule for rule in RULES if rule not in REORDERING)
_KEEP_COLUMNS = tuple(rule for rule in RULES if rule not in PROJECT_PUSH_DOWNS)
_KEEP_JOINS = tuple(rule for rule in RULES if rule is not join_order)


@dataclass(frozen=True)
class Optimized:
    """A rewritten plan, and the names of the rules that were applied, in the order of their first use."""

    node: logical.Node
    rules: tuple[str, ...]


@dataclass
class _Run:
    """The state of one optimisation: the rules that may be applied, the number of steps, the used rules, and finished
    nodes, to which no rule applies any more.

    A finished node is stored with the original node, by the identity of the original and by whether the order of rows
    must be kept.
    """

    rules: tuple[Rule, ...] = RULES
    steps: int = 0
    used: dict[str, None] = field(default_factory=dict)
    finished: dict[tuple[int, bool], tuple[logical.Node, logical.Node]] = field(default_factory=dict)


@memoized_by_identity(256)
def optimize(node: logical.Node) -> logical.Node:
    """An equal plan: the same columns, the same relation at every instant, and a key if there was one.

    >>> import pyarrow as pa
    >>> optimize(logical.Distinct(logical.Distinct(logical.Values(pa.schema([("x", pa.int64())]), ((1,),)))))
    Distinct(input=Values(schema=x: int64, rows=((1,),)))
    """
    return rewritten(node).node


def rewritten(node: logical.Node) -> Optimized:
    """The optimised plan with the names of the rules applied. Rules are applied inputs first, until none applies."""
    return _rewritten(node, _Run())


def rewritten_in_join_order(node: logical.Node) -> logical.Node:
    """The optimised plan; the order of joins is not changed."""
    return _rewritten(node, _Run(_KEEP_JOINS)).node


def with_all_columns(node: logical.Node) -> logical.Node:
    """The optimised plan in which operators still have all columns of their inputs."""
    return _rewrite(node, _Run(_KEEP_COLUMNS), keep_order=False)


def _rewritten(node: logical.Node, run: _Run) -> Optimized:
    for _ in range(_MAX_ROUNDS):
        before, steps = node, run.steps
        node = _rewrite(node, run, keep_order=False)
        for rule in WHOLE_PLAN_RULES:
            rewrite = rule(node)
            node = rewrite if rewrite is not None and _accepted(rule, node, rewrite, run) else node
        if run.steps == steps or fingerprint(node) == fingerprint(before):
            break
    return Optimized(node, tuple(run.used))


def _rewrite(node: logical.Node, run: _Run, *, keep_order: bool) -> logical.Node:
    """The node rewritten until no rule applies to it or to any node below it."""
    known = run.finished.get((id(node), keep_order))
    if known is not None:
        return known[1]
    keep_below = keep_order or depends_on_arrival(node)
    rebuilt = with_inputs(node, tuple(_rewrite(below, run, keep_order=keep_below) for below in inputs(node)))
    rewrite = _apply_first_rule(rebuilt, run, keep_order=keep_order)
    finished = rebuilt if rewrite is None else _rewrite(rewrite, run, keep_order=keep_order)
    run.finished[id(node), keep_order] = (node, finished)
    run.finished[id(finished), keep_order] = (finished, finished)
    return finished


def _apply_first_rule(node: logical.Node, run: _Run, *, keep_order: bool) -> logical.Node | None:
    """The node rewritten by the first rule that applies; None if none does."""
    for rule in _KEEP_ORDER if keep_order else run.rules:
        rewrite = rule(node)
        if rewrite is not None and _accepted(rule, node, rewrite, run):
            return rewrite
    return None


def _accepted(rule: Rule, node: logical.Node, rewrite: logical.Node, run: _Run) -> bool:
    if run.steps >= _MAX_STEPS or not preserves_properties(node, rewrite):
        return False
    run.steps += 1
    run.used.setdefault(rule.__name__)
    return True


def preserves_properties(before: logical.Node, after: logical.Node) -> bool:
    """Whether the plan `after` has all properties of `before`: the same columns, the key of `before` or a subset of it,
    and append-only rows.
    """
    columns, new_columns = schema(before), schema(after)
    if (columns.names, columns.types) != (new_columns.names, new_columns.types):
        return False
    key, new_key = keys(before), keys(after)
    return (not key or bool(new_key and set(new_key) <= set(key))) and append_only(after) >= append_only(before)
