"""Each rule: the plan that it creates, and that this plan publishes the same records as the original."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsms.model import logical
from dsms.model.fingerprint import fingerprint
from dsms.model.properties import append_only, keys, walk
from dsms.model.schema import schema
from dsms.planner.optimizer.algebra.push_down import PushDown
from dsms.planner.optimizer.optimize import optimize, rewritten
from dsms.planner.optimizer.rules import RULES, WHOLE_PLAN_RULES
from dsms.planner.optimizer.rules.filter_push_downs import FILTER_PUSH_DOWNS
from dsms.planner.optimizer.rules.project_push_downs import PROJECT_PUSH_DOWNS
from dsms.planner.physical.explain import tree
from tests.dsms.planner.optimizer.rules.rule_cases import CASES
from tests.dsms.planner.optimizer.rules.rule_harness import everywhere, histories, published
from tests.support.strategies import examples

BY_NAME = {rule.__name__: rule for rule in (*RULES, *WHOLE_PLAN_RULES)}
EACH = [(name, at) for name, plans in CASES.items() for at in range(len(plans))]
CUTS = st.sampled_from([((5,), 1), ((3, 4, 9), 1), ((), 2), ((6, 13), 3)])


def after(name: str, node: logical.Node) -> logical.Node:
    rule = BY_NAME[name]
    return (rule(node) or node) if rule in WHOLE_PLAN_RULES else everywhere(rule, node)


def text(node: logical.Node) -> str:
    bounds = [group.bound for group in walk(node) if isinstance(group, logical.GroupBy) and group.bound]
    return tree(node) + "".join(f"\nbound: {bound}" for bound in bounds)


def keyless(node: logical.Node) -> logical.Node:
    """The node without a key, because a keyed result does not show that a row occurs twice."""
    return logical.Union((node,))


def test_every_rule_has_a_case() -> None:
    assert set(CASES) == set(BY_NAME)
    assert all(CASES.values())


@pytest.mark.parametrize("rule", [*FILTER_PUSH_DOWNS, *PROJECT_PUSH_DOWNS], ids=lambda rule: rule.name)
def test_a_push_down_has_a_case_for_every_node_that_it_passes_through(rule: PushDown) -> None:
    nodes = [node for plan in CASES[rule.name] for node in walk(plan) if isinstance(node, rule.moved)]
    assert {type(node.input) for node in nodes if rule(node)} == set(rule.through)


@pytest.mark.parametrize("name", sorted(CASES))
def test_golden(name: str, golden) -> None:
    pairs = [f"{text(node)}\n→\n{text(after(name, node))}\n" for node in CASES[name]]
    golden(f"rules/{name}.txt", "\n".join(pairs))


@pytest.mark.parametrize(("name", "at"), EACH)
def test_rule_preserves_columns_keys_and_append_only(name: str, at: int) -> None:
    node = CASES[name][at]
    rewrite = after(name, node)
    assert fingerprint(rewrite) != fingerprint(node)
    assert (schema(rewrite).names, schema(rewrite).types) == (schema(node).names, schema(node).types)
    assert not keys(node) or set(keys(rewrite)) <= set(keys(node)) and keys(rewrite)
    assert append_only(rewrite) >= append_only(node)


@pytest.mark.parametrize(("name", "at"), EACH)
@settings(max_examples=examples(15))
@given(history=histories(), cut=CUTS)
def test_equal_changes(name: str, at: int, history, cut) -> None:
    node = CASES[name][at]
    before, then = (published(keyless(node), keyless(plan), history, *cut) for plan in (node, after(name, node)))
    assert then.changes == before.changes
    assert then.faults <= before.faults


@pytest.mark.parametrize(("name", "at"), EACH)
@settings(max_examples=examples(8))
@given(history=histories(), cut=CUTS)
def test_equal_changes_of_the_optimised_plan(name: str, at: int, history, cut) -> None:
    node = CASES[name][at]
    before, then = (published(node, plan, history, *cut) for plan in (node, optimize(node)))
    assert then.changes == before.changes
    assert then.faults <= before.faults


@pytest.mark.parametrize(("name", "at"), EACH)
def test_optimizing_an_optimized_plan_changes_nothing(name: str, at: int) -> None:
    optimized = rewritten(CASES[name][at])
    assert fingerprint(rewritten(optimized.node).node) == fingerprint(optimized.node)
    assert fingerprint(rewritten(CASES[name][at])) == fingerprint(optimized)
