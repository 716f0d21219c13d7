"""Rewrites JSON aggregates and functions that return rows, as in PostgreSQL, to plain functions of the language."""

from __future__ import annotations

from sqlglot import exp

from dsms.model.position import not_supported

#: The key in the `meta` of a node that makes JSON text, which other JSON functions insert unchanged.
JSON_TEXT = "JSON text"
#: Functions that return rows: the function that returns the same values as an array.
ROW_FUNCTIONS = {
    "json_array_elements": "json_elements",
    "json_array_elements_text": "json_element_texts",
    "json_object_keys": "json_keys",
    "string_to_table": "string_to_array",
}
_ARRAYS = ("json_agg", "json_group_array")
_OBJECTS = ("json_object_agg", "json_group_object", "json_objectagg")


def without_json_notations(tree: exp.Expr) -> exp.Expr:
    """The query with JSON_AGG and JSON_OBJECT_AGG as STRING_AGG of JSON texts, and with UNNEST of an array in place of
    functions that return rows. The names with JSONB mean the same: JSON is text.

    >>> import sqlglot
    >>> query = sqlglot.parse_one("SELECT jsonb_agg(a ORDER BY b) FROM t, json_array_elements(j) AS e")
    >>> print(without_json_notations(query).sql("postgres"))
    SELECT ('[' || STRING_AGG(COALESCE(TO_JSON(a), 'null'), ',' ORDER BY b NULLS FIRST) || ']') AS jsonb_agg FROM t, \
UNNEST(JSON_ELEMENTS(j)) AS e
    """
    for call in list(tree.find_all(exp.Anonymous, exp.JSONArrayAgg, exp.JSONObjectAgg, exp.JSONBObjectAgg)):
        name = "" if isinstance(call.parent, exp.Dot) else _name(call)
        if name in ROW_FUNCTIONS:
            _unnest(call, ROW_FUNCTIONS[name])
        elif name in (*_ARRAYS, *_OBJECTS) and not isinstance(call.parent, exp.Window):
            _aggregate(call, name in _OBJECTS)
    return tree


def _name(call: exp.Expr) -> str:
    if isinstance(call, exp.JSONArrayAgg):
        return "json_agg"
    if isinstance(call, exp.JSONObjectAgg | exp.JSONBObjectAgg):
        return "json_object_agg"
    return call.name.lower().replace("jsonb_", "json_")


def _unnest(call: exp.Expr, function: str) -> None:
    """Replaces a call in FROM by UNNEST of an array, and one in a select list by UNNEST in the select list."""
    array = exp.Anonymous(this=function, expressions=call.expressions)
    array.meta.update(call.meta)
    item = call.parent
    if not isinstance(item, exp.Table | exp.Lateral):
        exploded = exp.Explode(this=array)
        call.replace(exp.alias_(exploded, _written(call)) if _is_output(call) else exploded)
        return
    alias = item.args.get("alias") or exp.TableAlias(this=exp.to_identifier(call.name.lower()))
    unnest = exp.Unnest(expressions=[array], alias=alias, joins=item.args.get("joins"))
    if item.args.get("ordinality"):
        columns = alias.args.get("columns") or []
        unnest.set("offset", columns.pop() if len(columns) > 1 else True)
    item.replace(unnest)


def _aggregate(call: exp.Expr, pairs: bool) -> None:
    """Replaces an aggregate by `'[' || STRING_AGG(element, ',') || ']'`, which is NULL if there are no rows."""
    parts = _pair(call) if pairs else [_single(call)]
    order = parts[-1] if isinstance(parts[-1], exp.Order) else None
    value = order.this if order is not None else parts[-1]
    distinct = value if isinstance(value, exp.Distinct) else None
    if distinct is not None and len(distinct.expressions) != 1:
        raise not_supported(call, "DISTINCT of several values in JSON_AGG", "JSON_AGG(DISTINCT value)")
    if distinct is not None and order is not None:
        raise not_supported(call, "DISTINCT with ORDER BY in a JSON aggregate", "SELECT DISTINCT in a subquery in FROM")
    element = _element(parts[0] if pairs else None, distinct.expressions[0] if distinct is not None else value)
    if distinct is not None:
        distinct.set("expressions", [element])
        element = distinct
    if order is not None:
        order.set("this", element)
        element = order
    aggregate: exp.Expr = exp.GroupConcat(this=element, separator=exp.Literal.string(","))
    whole = call.parent if isinstance(call.parent, exp.Filter) else call
    place = exp.Placeholder()
    whole.replace(place)
    if isinstance(whole, exp.Filter):
        whole.set("this", aggregate)
        aggregate = whole
    opening, closing = "{}" if pairs else "[]"
    text = _joined(exp.Literal.string(opening), aggregate, exp.Literal.string(closing))
    text.meta[JSON_TEXT] = True
    made: exp.Expr = exp.paren(text, copy=False)
    place.replace(exp.alias_(made, _written(call), copy=False) if _is_output(place) else made)


def _element(name: exp.Expr | None, value: exp.Expr) -> exp.Expr:
    """The JSON text of a value, or of a name and a value."""
    text = exp.Coalesce(this=_json(value), expressions=[exp.Literal.string("null")])
    if name is None:
        return text
    given = exp.Anonymous(this="not_null", expressions=[exp.Cast(this=name, to=exp.DataType.build("varchar"))])
    return _joined(_json(given), exp.Literal.string(":"), text)


def _is_output(node: exp.Expr) -> bool:
    """Whether the node is an item of a select list, without an alias."""
    return isinstance(node.parent, exp.Select) and node.arg_key == "expressions"


def _written(call: exp.Expr) -> str:
    return call.name.lower() if isinstance(call, exp.Anonymous) else _name(call)


def _single(call: exp.Expr) -> exp.Expr:
    """The argument of JSON_AGG. Raises SqlError unless there is one."""
    given: list[exp.Expr] = list(call.expressions) if isinstance(call, exp.Anonymous) else [call.this]
    if len(given) != 1:
        raise not_supported(call, f"JSON_AGG of {len(given)} arguments", "JSON_AGG(value)")
    return given[0]


def _pair(call: exp.Expr) -> list[exp.Expr]:
    """The name and the value of JSON_OBJECT_AGG. Raises SqlError for other arguments."""
    given = [call.this, call.expression] if isinstance(call, exp.JSONBObjectAgg) else list(call.expressions)
    if len(given) == 1 and isinstance(given[0], exp.JSONKeyValue):
        given = [given[0].this, given[0].expression]
    if len(given) != 2:
        raise not_supported(call, "JSON_OBJECT_AGG without a name and a value", "JSON_OBJECT_AGG(name, value)")
    return given


def _json(value: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this="to_json", expressions=[value])


def _joined(*texts: exp.Expr) -> exp.Expr:
    whole = texts[0]
    for text in texts[1:]:
        whole = exp.DPipe(this=whole, expression=text, safe=True)
    return whole
