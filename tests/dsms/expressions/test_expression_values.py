"""Every function and form of a row expression, from text to value, against values written by hand."""

import pytest
from conversion_cases import CONVERSION
from expression_row import FRAME, bind, run
from logic_cases import COMPARISON, CONDITIONAL, LOGIC
from nested_cases import NESTED
from number_cases import ARITHMETIC, NUMBERS
from text_cases import JSON, TEXT
from time_cases import TIME

from operators.errors import SqlError
from operators.expressions import FUNCTIONS, Call, evaluate, to_sql, walk

CASES = ARITHMETIC + COMPARISON + LOGIC + CONDITIONAL + CONVERSION + NUMBERS + TEXT + TIME + JSON + NESTED


@pytest.mark.parametrize(("sql", "expected"), CASES, ids=[sql for sql, _ in CASES])
def test_value(sql, expected):
    if expected is SqlError:
        with pytest.raises(SqlError):
            bind(sql)
        return
    value = run(sql)
    assert (type(value), value) == (
        type(expected),
        pytest.approx(expected) if isinstance(expected, float) else expected,
    )


def test_every_function_has_a_case():
    used = set()
    for sql, expected in CASES:
        if expected is not SqlError:
            used |= {node.function for node in walk(bind(sql)) if isinstance(node, Call)}
    assert set(FUNCTIONS) - used == set()


@pytest.mark.parametrize("sql", [sql for sql, expected in CASES if expected is not SqlError])
def test_text_of_a_tree_binds_to_the_tree(sql):
    tree = bind(sql)
    again = bind(to_sql(tree))
    assert evaluate(FRAME, {"x": again})[0].equals(evaluate(FRAME, {"x": tree})[0])
