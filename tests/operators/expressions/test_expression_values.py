"""Every function and form of a row expression, from text to value, against values written by hand."""

import pytest

from operators.core.errors import SqlError
from operators.expressions import FUNCTIONS, Call, evaluate, to_sql, walk
from tests.operators.expressions.conversion_cases import CONVERSION
from tests.operators.expressions.expression_row import FRAME, bind, run
from tests.operators.expressions.logic_cases import COMPARISON, CONDITIONAL, LOGIC
from tests.operators.expressions.nested_cases import NESTED
from tests.operators.expressions.number_cases import ARITHMETIC, NUMBERS
from tests.operators.expressions.text_cases import JSON, TEXT
from tests.operators.expressions.time_cases import TIME

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
