"""Rewriting a plan by rules to one that is equal and cheaper: a pure function, so every process has the same plan."""

from __future__ import annotations

from dataclasses import dataclass, field

from dsms.model import logical
from dsms.model.by_identity import by_identity
from dsms.model.fingerprint import fingerprint
from dsms.model.properties import append_only, inputs, keys
from dsms.model.rebuild import with_inputs
from dsms.model.schema import schema
from dsms.optimizer.algebra.arrival_order import depends_on_arrival
from dsms.optimizer.rules import REORDERING, RULES, WHOLE_PLAN_RULES, Rule

#: Bounds that no plan should reach; a plan that does is equal all the same.
_MOST_STEPS, _MOST_ROUNDS = 5_000, 5
_KEEPING_ORDER = tuple(rule for rule in RULES if rule not in REORDERING)


@dataclass(frozen=True)
class Optimized:
    """A rewritten plan, and the names of the rules that made it, in the order of their first use."""

    node: logical.Node
    rules: tuple[str, ...]


@dataclass
class _Run:
    """The steps done, the rules that were used, and what is known to be finished, by identity and by whether a node
    above tells the age of rows."""

    steps: int = 0
    used: dict[str, None] = field(default_factory=dict)
    finished: dict[tuple[int, bool], tuple[logical.Node, logical.Node]] = field(default_factory=dict)


@by_identity(256)
def optimize(node: logical.Node) -> logical.Node:
    """An equal plan: the same columns, the same relation at every instant, a key where there was one.

    >>> import pyarrow as pa
    >>> optimize(logical.Distinct(logical.Distinct(logical.Values(pa.schema([("x", pa.int64())]), ((1,),)))))
    Distinct(input=Values(schema=x: int64, rows=((1,),)))
    """
    return rewritten(node).node


def rewritten(node: logical.Node) -> Optimized:
    """The optimised plan with the rules that were applied: inputs first, to a fixpoint."""
    run = _Run()
    for _ in range(_MOST_ROUNDS):
        before, steps = node, run.steps
        node = _rewrite(node, run, aged=False)
        for rule in WHOLE_PLAN_RULES:
            found = rule(node)
            node = found if found is not None and _accepted(rule, node, found, run) else node
        if run.steps == steps or fingerprint(node) == fingerprint(before):
            break
    return Optimized(node, tuple(run.used))


def _rewrite(node: logical.Node, run: _Run, *, aged: bool) -> logical.Node:
    """The node to which no rule applies any more, nor to any below it."""
    known = run.finished.get((id(node), aged))
    if known is not None:
        return known[1]
    below = aged or depends_on_arrival(node)
    found = with_inputs(node, tuple(_rewrite(one, run, aged=below) for one in inputs(node)))
    after = _first(found, run, aged=aged)
    done = found if after is None else _rewrite(after, run, aged=aged)
    run.finished[id(node), aged] = (node, done)
    run.finished[id(done), aged] = (done, done)
    return done


def _first(node: logical.Node, run: _Run, *, aged: bool) -> logical.Node | None:
    """What the first rule that applies makes of a node."""
    for rule in _KEEPING_ORDER if aged else RULES:
        found = rule(node)
        if found is not None and _accepted(rule, node, found, run):
            return found
    return None


def _accepted(rule: Rule, node: logical.Node, found: logical.Node, run: _Run) -> bool:
    if run.steps >= _MOST_STEPS or not as_good(node, found):
        return False
    run.steps += 1
    run.used.setdefault(rule.__name__)
    return True


def as_good(before: logical.Node, after: logical.Node) -> bool:
    """Whether a plan has the columns of another, a key where that has one, and is a stream where that is one."""
    columns, others = schema(before), schema(after)
    if (columns.names, columns.types) != (others.names, others.types):
        return False
    key, other = keys(before), keys(after)
    return (not key or bool(other and set(other) <= set(key))) and append_only(after) >= append_only(before)
