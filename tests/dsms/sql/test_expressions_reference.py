"""The reference of functions in the documents agrees with the registry of functions."""

from pathlib import Path

import pyarrow as pa
import pytest
import sqlglot

from dsms.sql.binder.scalars.expressions import bind_expression
from dsms.sql.binder.scalars.function_reference import reference
from dsms.sql.binder.scope import Scope
from dsms.sql.parser.dialect import Dsms
from operators.expressions import FUNCTIONS, walk

DOCUMENT = Path(__file__).parents[3] / "docs" / "functions.md"


def test_document_is_current():
    assert DOCUMENT.read_text() == reference(), (
        "run: python -m dsms.sql.binder.scalars.function_reference > docs/functions.md"
    )


@pytest.mark.parametrize("name", [name for name, function in FUNCTIONS.items() if function.example])
def test_example_binds_to_its_function(name):
    types = {"a": pa.int32(), "b": pa.int32(), "x": pa.float64(), "t": pa.timestamp("us"), "j": pa.string()}
    if FUNCTIONS[name].kind == "nested":
        types["a"] = pa.list_(pa.string() if name == "array_to_string" else pa.int32())
    if FUNCTIONS[name].kind == "logic":
        types |= {"a": pa.bool_(), "b": pa.bool_()}
    if name == "date_diff":
        types |= {"a": pa.date32(), "b": pa.date32()}
    types["address"] = pa.struct([("city", pa.string())])
    bound = bind_expression(sqlglot.parse_one(FUNCTIONS[name].example, dialect=Dsms), Scope(pa.schema(types)))
    assert name in {getattr(node, "function", None) for node in walk(bound)}
