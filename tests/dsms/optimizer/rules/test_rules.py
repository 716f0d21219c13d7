"""Each rule: how it rewrites, and that the plan after it publishes what the plan before it does."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsms.model import logical
from dsms.model.properties import append_only, keys, walk
from dsms.model.schema import schema
from dsms.optimizer.optimize import optimize, rewritten
from dsms.optimizer.rules import RULES, WHOLE_PLAN_RULES
from dsms.physical.explain import tree
from tests.dsms.optimizer.rules.rule_cases import CASES
from tests.dsms.optimizer.rules.rule_harness import everywhere, histories, published

BY_NAME = {rule.__name__: rule for rule in (*RULES, *WHOLE_PLAN_RULES)}
EACH = [(name, at) for name, plans in CASES.items() for at in range(len(plans))]
#: OVER has no operator yet.
RUNNABLE = [
    (name, at)
    for name, at in EACH
    if not any(isinstance(one, logical.WindowFunctions) for one in walk(CASES[name][at]))
]
CUTS = st.sampled_from([((5,), 1), ((3, 4, 9), 1), ((), 2), ((6, 13), 3)])


def after(name: str, node: logical.Node) -> logical.Node:
    rule = BY_NAME[name]
    return (rule(node) or node) if rule in WHOLE_PLAN_RULES else everywhere(rule, node)


def text(node: logical.Node) -> str:
    bounds = [one.bound for one in walk(node) if isinstance(one, logical.GroupBy) and one.bound]
    return tree(node) + "".join(f"\nbound: {bound}" for bound in bounds)


def keyless(node: logical.Node) -> logical.Node:
    """The node as a bag: on a keyed result a row that is there twice looks like one."""
    return logical.Union((node,))


def test_every_rule_has_a_case() -> None:
    assert set(CASES) == set(BY_NAME)
    assert all(CASES.values())


@pytest.mark.parametrize("name", sorted(CASES))
def test_golden(name: str, golden) -> None:
    pairs = [f"{text(node)}\n→\n{text(after(name, node))}\n" for node in CASES[name]]
    golden(f"rules/{name}.txt", "\n".join(pairs))


@pytest.mark.parametrize(("name", "at"), EACH)
def test_columns_keys_and_growth_stay(name: str, at: int) -> None:
    node = CASES[name][at]
    found = after(name, node)
    assert repr(found) != repr(node)
    assert (schema(found).names, schema(found).types) == (schema(node).names, schema(node).types)
    assert not keys(node) or set(keys(found)) <= set(keys(node)) and keys(found)
    assert append_only(found) >= append_only(node)


@pytest.mark.parametrize(("name", "at"), RUNNABLE)
@settings(max_examples=8)
@given(history=histories(), cut=CUTS)
def test_equal_changes(name: str, at: int, history, cut) -> None:
    node = CASES[name][at]
    before, then = (published(keyless(node), keyless(plan), history, *cut) for plan in (node, after(name, node)))
    assert then.changes == before.changes
    assert then.faults <= before.faults


@pytest.mark.parametrize(("name", "at"), RUNNABLE)
@settings(max_examples=3)
@given(history=histories(), cut=CUTS)
def test_equal_changes_of_the_optimised_plan(name: str, at: int, history, cut) -> None:
    node = CASES[name][at]
    before, then = (published(node, plan, history, *cut) for plan in (node, optimize(node)))
    assert then.changes == before.changes
    assert then.faults <= before.faults


@pytest.mark.parametrize(("name", "at"), EACH)
def test_a_fixpoint(name: str, at: int) -> None:
    found = rewritten(CASES[name][at])
    again = rewritten(found.node)
    assert repr(again.node) == repr(found.node)
    assert repr(rewritten(CASES[name][at])) == repr(found)
