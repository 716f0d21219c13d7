"""Row expressions that are refused, and the messages of the refusals."""

import pyarrow as pa
import pytest
import sqlglot

from dsms.sql.binder.scalars.expressions import bind_expression
from dsms.sql.binder.scope import Scope, join_scopes
from operators.core.errors import SqlError
from operators.expressions import columns
from tests.operators.expressions.expression_row import bind


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("pric", 'line 1, column 1: column "pric" not found; have: '),
        ("1 +\n  q.foo", 'line 2, column 3: column "q.foo" not found; have: '),
        ("i + s", 'line 1, column 1: "add" does not take (INTEGER, VARCHAR) in "i + s"; it takes two numbers'),
        ("1 + SUM(i)", 'line 1, column 5: aggregate "SUM" is not supported in a row expression'),
        ("i IN (SELECT 1)", "line 1, column 1: a subquery is not supported in a row expression"),
        ("ROW_NUMBER() OVER ()", "window function"),
        (
            "NOW()",
            'line 1, column 1: "now" is not supported; results must depend on the logs alone',
        ),
        ("RANDOM()", '"random" is not supported; results must depend on the logs alone'),
        ("GEN_RANDOM_UUID()", '"gen_random_uuid" is not supported'),
        ("CURRENT_TIMESTAMP", '"current_timestamp" is not supported'),
        ("uper(s)", 'line 1, column 1: function "uper" not found; have: upper, '),
        ("sha1(s)", 'line 1, column 1: function "sha1" not found; have: '),
        ("st.town", 'field "town" not found; have: city, zip'),
        ("CAST(i AS DATE)", "cannot cast INTEGER to DATE"),
        ("TO_JSON(d)", '"to_json" does not take (DATE)'),
        ("JSON_OBJECT(s, 1)", '"json_object" does not take (VARCHAR, INTEGER)'),
        ("JSON_OBJECT('a', 1, 'a', 2)", "literal names"),
        ("JSON_BUILD_OBJECT('a')", '"json_object" does not take (VARCHAR)'),
        ("CAST(i AS POINT)", 'type "POINT" not found; have: BOOLEAN'),
        ("i = 'abc'", "'abc' is not a valid INTEGER"),
        ("REGEXP_LIKE(s, '(')", '"(" is not a valid regular expression'),
        ("JSON_VALUE(js, '$..a')", "is not a valid JSON path"),
        ("EXTRACT(eon FROM t)", '"eon" is not a part or unit of a time; have: year, '),
        ("t + INTERVAL '1 eon'", 'unknown unit "EON"; have: '),
        ("FORMAT('%s %d', i)", 'FORMAT does not support "%d"; have: %s, %%'),
        ("FORMAT('%s %s', i)", "FORMAT has 2 %s for 1 values; give one value for each %s"),
        ("d + b", "does not take (DATE, BOOLEAN)"),
    ],
)
def test_refusal(sql, message):
    with pytest.raises(SqlError) as caught:
        bind(sql)
    assert message in str(caught.value)


def test_names_of_a_join():
    left = Scope(pa.schema([("id", pa.int64()), ("a", pa.int64())]), "L")
    scope = join_scopes(left, Scope(pa.schema([("ID", pa.int64()), ("b", pa.int64())]), "R"))
    bound = bind_expression(sqlglot.parse_one("l.id + r.id + a + B"), scope)
    assert columns(bound) == {"id", "R.ID", "a", "b"}
    with pytest.raises(SqlError, match='"iD" is ambiguous; use one of: L.id, R.ID'):
        bind_expression(sqlglot.parse_one("iD"), scope)
