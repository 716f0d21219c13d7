"""Learns the types of what DuckDB computes in a query, from its errors: a refused call is reported with its types."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pyarrow as pa
import sqlglot
from sqlglot import exp

from dsms.model.types import parse_type
from dsms.tables.refusals import EngineRefusal

#: A DuckDB function without parameters: a call with an argument is refused with the argument's type. The engine
#: computes the language's own PI, so a query has no other call of it.
PROBE = "pi"
_REFUSAL = re.compile(rf"argument types '{PROBE}\((STRUCT\(.*\))\)'\.")
#: DuckDB's types of sums. In the language such a sum is BIGINT, its largest integer type, and a larger sum is a fault.
_LARGE = (exp.DType.INT128, exp.DType.UINT128, exp.DType.UBIGINT, exp.DType.UINT, exp.DType.BIGNUM)


def groups_of(marks: Mapping[int, exp.Expr]) -> list[list[int]]:
    """Groups the engine expressions for which one probe can learn the types of leaves: those of one select list whose
    leaves are columns and not aliases of the list."""
    groups: dict[object, list[int]] = {}
    for number, mark in marks.items():
        groups.setdefault(_select_list_of(mark) or number, []).append(number)
    return list(groups.values())


def _select_list_of(mark: exp.Expr) -> int | None:
    item = mark.parent if isinstance(mark.parent, exp.Alias) else mark
    select = item.parent
    if not isinstance(select, exp.Select) or item.arg_key != "expressions" or not mark.expressions:
        return None
    own = {each.alias.lower() for each in select.expressions if isinstance(each, exp.Alias)}
    alone = (isinstance(leaf, exp.Column) and leaf.parts[0].name.lower() not in own for leaf in mark.expressions)
    return -id(select) if all(alone) else None


def probe(leaves: Mapping[int, Sequence[exp.Expr]]) -> exp.Expr:
    """A call that DuckDB refuses with the types of its arguments: the leaves of engine expressions, which are moved.

    >>> probe({3: [exp.column("a"), exp.func("max", exp.column("b"))]}).sql("duckdb")
    "PI({'3.0': a, '3.1': MAX(b)})"
    """
    fields = [
        exp.PropertyEQ(this=exp.to_identifier(f"{number}.{at}", quoted=True), expression=leaf)
        for number, some in leaves.items()
        for at, leaf in enumerate(some)
    ]
    return exp.Anonymous(this=PROBE, expressions=[exp.Struct(expressions=fields)])


def types_from_refusal(refusal: str) -> dict[int, list[pa.DataType]]:
    """The types of leaves, by the number of their engine expression, from DuckDB's refusal of a probe. Raises SqlError
    for any other refusal, and for a type that the language does not have.

    >>> types_from_refusal('''Binder Error: … argument types 'pi(STRUCT("3.0" HUGEINT, "3.1" VARCHAR[]))'. You …''')
    {3: [DataType(int64), ListType(list<item: string>)]}
    """
    if (found := _REFUSAL.search(refusal)) is None:
        raise EngineRefusal(refusal.removeprefix("line 1, column 1: "))
    types: dict[int, list[pa.DataType]] = {}
    for field in sqlglot.parse_one(found[1], read="duckdb", into=exp.DataType).expressions:
        types.setdefault(int(field.name.partition(".")[0]), []).append(_type(field.args["kind"]))
    return types


def _type(node: exp.Expr) -> pa.DataType:
    if isinstance(node, exp.DataType) and node.this in _LARGE:
        return pa.int64()
    if node.sql("duckdb").strip('"').upper() == "NULL":
        return pa.null()
    return parse_type(node)
