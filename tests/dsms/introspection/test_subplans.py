"""SHOW SUBPLANS lists the links that divided queries share, with the queries that they serve."""

from __future__ import annotations

from dsms.introspection.entities import Report
from dsms.introspection.operator_metrics import Operator
from dsms.introspection.subplans import subplans
from tests.dsms.runtime.test_shared_links import FAMILIES, divided


def test_a_shared_link_is_listed_with_all_queries_that_hold_it() -> None:
    catalog = divided(FAMILIES[0][:2], 2)
    (link,) = {*catalog.get("q0").shared_links} & {*catalog.get("q1").shared_links}
    (own,) = {*catalog.get("q0").shared_links} - {link}
    report = Report(
        executor="one",
        fragment="0",
        at=0.0,
        operators=(
            Operator(id="1", fragment="0", lane="l", operator="Project", stage=0, queries=(link.name, "q0", "q1")),
            Operator(id="2", fragment="0", lane="l", operator="Send", stage=1, queries=(link.name,), rows_out=7),
            Operator(id="3", fragment="0", lane="l", operator="Send", stage=1, queries=(own.name,)),
            Operator(id="4", fragment="0", lane="l", operator="StreamOutput", stage=1, queries=("q0",)),
        ),
    )
    both, one = subplans([report], catalog)
    assert both.queries == ("q0", "q1") and both.links == (link,)
    assert [operator.operator for operator in both.operators] == ["Project", "Send"]
    assert both.row[7:9] == (link.id, 7) and both.reason == "sends to other fragments what it computes for them"
    assert one.queries == ("q0",) and one.links == (own,)
