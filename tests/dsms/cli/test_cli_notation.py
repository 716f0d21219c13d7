"""Changes as text, and the table that results from them. The oracle recomputes the table from the whole history."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsms.cli.notation import TableView, render_change


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (("+", ["a", 105], 2), "+<a,105>2"),
        (("u", ["c", 103], 6), "u<c,103>6"),
        (("-", ["a"], 5), "-<a>5"),
        (("+", [None, True, 1.5], None), "+<NULL,true,1.5>"),
        (("+", [{"x": [1, "ü"]}], 0), '+<{"x":[1,"ü"]}>0'),
    ],
)
def test_notation(change, text):
    assert render_change(*change) == text


keyed = st.tuples(st.sampled_from("+u-"), st.integers(0, 3), st.integers(0, 5))


@given(st.lists(keyed))
def test_keyed_table_is_the_last_change_of_each_key(history):
    view = TableView(["k", "v"], key=["k"])
    for op, k, v in history:
        view.apply(op, {"k": k} if op == "-" else {"k": k, "v": v})
    last = {k: (op, v) for op, k, v in history}
    assert sorted(view.rows()) == sorted((k, v) for k, (op, v) in last.items() if op != "-")


@given(st.lists(st.tuples(st.sampled_from("+-"), st.integers(0, 2))))
def test_keyless_table_is_a_bag(history):
    view = TableView(["v"])
    for op, v in history:
        view.apply(op, {"v": v})
    weights = Counter()
    for op, v in history:
        weights[v] += 1 if op == "+" else -1
    assert Counter(view.rows()) == Counter({(v,): n for v, n in weights.items() if n > 0})
