"""The plans to which each rule applies: those of the SELECTs in tests/golden/rules, and a few built by hand."""

from __future__ import annotations

from functools import cache

from dsms.model import logical
from dsms.model.fingerprint import fingerprint
from dsms.planner.optimizer.rules import RULES, WHOLE_PLAN_RULES
from dsms.sql.binder.bind import plan_of
from operators.expressions import call
from operators.sync.sync_points import Periodic
from tests.dsms.planner.optimizer.rules.rule_harness import (
    CATALOG,
    EVENTS,
    KEYED,
    everywhere,
    over,
    prefixed,
    project,
    where,
)
from tests.dsms.planner.optimizer.rules.rule_plans import BOTH, EVERY2, JOIN, NOW, RIGHT, SAME_A, THIRD
from tests.support.fake_environment import apply_all
from tests.support.plan_files import plan_files

BY_NAME = {rule.__name__: rule for rule in (*RULES, *WHOLE_PLAN_RULES)}
FILES = plan_files("rules")
_SIDES = call("and", over(JOIN, "id"), over(JOIN, "r_id"))
_CROSS = logical.Join(EVENTS, THIRD, (), over(THIRD, "q_a", "less"))
#: SQL has no text for these plans. The binder itself turns equalities into keys, moves conditions on one side below the
#: join and avoids cross products. It ends each view in a projection, and an Rstream at every instant has no points.
HAND_BUILT: dict[str, dict[str, logical.Node]] = {
    "equality_to_key": {
        "a condition of a join": logical.Join(KEYED, RIGHT, (("id", "r_id"),), call("and", SAME_A, BOTH)),
    },
    "join_order": {
        "a cross product": logical.Join(_CROSS, RIGHT, (("id", "r_id"), ("q_id", "r_id"))),
        "a condition on one side": logical.Join(
            logical.Join(EVENTS, THIRD, (("id", "q_id"),), over(EVENTS, "a")), prefixed(NOW, "w_"), (("a", "w_a"),)
        ),
    },
    "prune_columns": {
        "a synchronisation directly above a join": project(logical.Sync(JOIN, EVERY2), "a"),
    },
    "residual_through_join": {
        "a join": logical.Join(KEYED, RIGHT, (("id", "r_id"),), call("and", over(JOIN, "a"), over(JOIN, "r_a"), BOTH)),
        "a left join": logical.Join(KEYED, RIGHT, (("a", "r_a"),), _SIDES, "left"),
        "a right join": logical.Join(KEYED, RIGHT, (("a", "r_a"),), _SIDES, "right"),
        "an anti-join": logical.SemiJoin(KEYED, RIGHT, (("a", "r_a"),), _SIDES, anti=True),
        "a semi-join": logical.SemiJoin(KEYED, RIGHT, (("a", "r_a"),), _SIDES),
    },
    "stream_of_now_window": {
        "Rstream with points": logical.ToStream(project(where(NOW, over(NOW, "a")), "a"), "rstream", Periodic(1)),
    },
}
#: The rule and the title of each case.
CASES = [(rule, title) for rule, file in FILES.items() for title in file.cases]
CASES += [(rule, title) for rule, plans in HAND_BUILT.items() for title in plans]


@cache
def plan(rule: str, title: str) -> logical.Node:
    """The plan of a case, before the rule is applied."""
    if title in HAND_BUILT.get(rule, {}):
        return HAND_BUILT[rule][title]
    case = FILES[rule].cases[title]
    catalog, _ = apply_all(f"CREATE STREAMED VIEW V AS {case.select}", CATALOG)
    node = plan_of("V", catalog)
    for earlier in case.after:
        before, node = node, after(earlier, node)
        assert fingerprint(node) != fingerprint(before), f"{earlier} does not apply in {rule}: {title}"
    return node


def after(rule: str, node: logical.Node) -> logical.Node:
    """The plan after the rule."""
    applied = BY_NAME[rule]
    return (applied(node) or node) if applied in WHOLE_PLAN_RULES else everywhere(applied, node)
