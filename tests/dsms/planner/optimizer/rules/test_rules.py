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
from dsms.planner.optimizer.rules.filter_push_downs import FILTER_PUSH_DOWNS
from dsms.planner.optimizer.rules.project_push_downs import PROJECT_PUSH_DOWNS
from dsms.planner.physical.explain import tree
from tests.dsms.planner.optimizer.rules.rule_cases import BY_NAME, CASES, FILES, HAND_BUILT, after, plan
from tests.dsms.planner.optimizer.rules.rule_harness import histories, published
from tests.support.strategies import examples

CUTS = st.sampled_from([((5,), 1), ((3, 4, 9), 1), ((), 2), ((6, 13), 3)])


def text(node: logical.Node) -> str:
    bounds = [group.bound for group in walk(node) if isinstance(group, logical.GroupBy) and group.bound]
    return tree(node) + "".join(f"\nbound: {bound}" for bound in bounds)


def keyless(node: logical.Node) -> logical.Node:
    """The node without a key, because a keyed result does not show that a row occurs twice."""
    return logical.Union((node,))


def rewrite(rule: str, title: str) -> str:
    node = plan(rule, title)
    return f"{text(node)}\n→\n{text(after(rule, node))}"


def test_every_rule_has_a_case() -> None:
    assert {rule for rule, _ in CASES} == set(BY_NAME)
    assert len(set(CASES)) == len(CASES)


@pytest.mark.parametrize("rule", [*FILTER_PUSH_DOWNS, *PROJECT_PUSH_DOWNS], ids=lambda rule: rule.name)
def test_a_push_down_has_a_case_for_every_node_that_it_passes_through(rule: PushDown) -> None:
    plans = [plan(name, title) for name, title in CASES if name == rule.name]
    nodes = [node for root in plans for node in walk(root) if isinstance(node, rule.moved)]
    assert {type(node.input) for node in nodes if rule(node)} == set(rule.through)


@pytest.mark.parametrize("rule", FILES)
def test_rewrites_of_selects(rule: str, golden) -> None:
    golden(FILES[rule].name, FILES[rule].text(lambda case: rewrite(rule, case.title)))


def test_rewrites_of_plans_that_are_built_by_hand(golden) -> None:
    cases = [(rule, title) for rule, plans in HAND_BUILT.items() for title in plans]
    golden("rules/hand_built.txt", "\n".join(f"{rule}: {title}\n{rewrite(rule, title)}\n" for rule, title in cases))


@pytest.mark.parametrize(("rule", "title"), CASES)
def test_rule_preserves_columns_keys_and_append_only(rule: str, title: str) -> None:
    node = plan(rule, title)
    then = after(rule, node)
    assert fingerprint(then) != fingerprint(node)
    assert (schema(then).names, schema(then).types) == (schema(node).names, schema(node).types)
    assert not keys(node) or set(keys(then)) <= set(keys(node)) and keys(then)
    assert append_only(then) >= append_only(node)


@pytest.mark.parametrize(("rule", "title"), CASES)
@settings(max_examples=examples(15))
@given(history=histories(), cut=CUTS)
def test_equal_changes(rule: str, title: str, history, cut) -> None:
    node = plan(rule, title)
    before, then = (published(keyless(node), keyless(ran), history, *cut) for ran in (node, after(rule, node)))
    assert then.changes == before.changes
    assert then.faults <= before.faults


@pytest.mark.parametrize(("rule", "title"), CASES)
@settings(max_examples=examples(8))
@given(history=histories(), cut=CUTS)
def test_equal_changes_of_the_optimised_plan(rule: str, title: str, history, cut) -> None:
    node = plan(rule, title)
    before, then = (published(node, ran, history, *cut) for ran in (node, optimize(node)))
    assert then.changes == before.changes
    assert then.faults <= before.faults


@pytest.mark.parametrize(("rule", "title"), CASES)
def test_optimizing_an_optimized_plan_changes_nothing(rule: str, title: str) -> None:
    optimized = rewritten(plan(rule, title))
    assert fingerprint(rewritten(optimized.node).node) == fingerprint(optimized.node)
    assert fingerprint(rewritten(plan(rule, title))) == fingerprint(optimized)
