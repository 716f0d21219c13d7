"""Parse nodes beyond SQL: windows on streams, synchronised relations, streams of queries.

The subclasses of `FromWrapper` wrap an item of FROM, their `this`. An alias written after the node belongs to that
item.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

#: The key in the `meta` of a call for the name of its function as written, in lower case. sqlglot has one class for
#: several names, so the class alone does not show it.
WRITTEN_NAME = "written name"


class FromWrapper(exp.Expression):
    """A wrapper of an item of FROM, with the name and alias of that item."""

    @property
    def alias(self) -> str:
        """The alias of the inner item."""
        return str(self.this.alias)

    @property
    def alias_or_name(self) -> str:
        """The alias or name of the inner item."""
        return str(self.this.alias_or_name)


class Span(exp.Expression):
    """A length of time or a number of rows: `5 MINUTES`, `10`. Without `unit` it is a bare number."""

    arg_types = {"this": True, "unit": False}


class StreamWindow(FromWrapper):
    """`S [Range 5 Minutes Slide 1 Minute]` (notation cql), `S WINDOW(RANGE 5 MINUTES)` (notation pipes).

    `kind` is range, rows or now. Without `size` the window is UNBOUNDED; with `least`, `size` is the greatest of a
    range of sizes. `within` is the Range of a Rows window. A window of PIPES with a `granularity` changes only at
    multiples of it.
    """

    arg_types = {
        "this": True,
        "kind": True,
        "notation": True,
        "size": False,
        "least": False,
        "slide": False,
        "partition": False,
        "within": False,
        "where": False,
        "granularity": False,
    }


class WindowTable(FromWrapper):
    """`TUMBLE(TABLE s, DESCRIPTOR(col), size)`, `TUMBLE(s, col, size)` and similar calls: `function` over `column`,
    with its lengths in `expressions`."""

    arg_types = {"this": True, "function": True, "column": True, "expressions": True, "partition": False}


class SyncRelation(FromWrapper):
    """`R[Sync](S)`: the relation S at the points of the streams `expressions`."""

    arg_types = {"this": True, "expressions": True}


class TableFunction(FromWrapper):
    """`NAME(TABLE item PARTITION BY columns, argument, …)`: `function` is the upper-case name; the arguments in
    `expressions` are `Descriptor`s and constants."""

    arg_types = {"this": True, "function": True, "partition": False, "expressions": False}


class Descriptor(exp.Expression):
    """`DESCRIPTOR(column, …)`."""

    arg_types = {"expressions": True}


class StreamOf(FromWrapper):
    """`Istream(…)`, `Dstream(…)`, `Rstream(…)` of a relation or query; `kind` is the name in lower case.

    As the only item of a select list it contains the list in `expressions` until the whole SELECT is parsed.
    """

    arg_types = {"this": False, "kind": True, "expressions": False, "distinct": False}


class StreamSample(FromWrapper):
    """`S Sample(10)`: that percentage of a stream."""

    arg_types = {"this": True, "percent": True}


class RowPattern(exp.Expression):
    """`S MATCH_RECOGNIZE (…) AS m`: a `pattern` as text, and the definitions of its variables in `expressions`. The
    alias is that of the result."""

    arg_types = {
        "this": True,
        "pattern": True,
        "partition": False,
        "order": False,
        "measures": False,
        "every": False,
        "skip": False,
        "within": False,
        "expressions": False,
        "alias": False,
        "joins": False,
    }


class Emit(exp.Expression):
    """`EMIT FINAL` at the end of a SELECT, which has it as its argument `emit`."""

    arg_types = {}


class WholeQuery(exp.Expression):
    """A wrapper of the tree of a query as written, before its defaults are filled in (see `expansion`)."""

    arg_types = {"this": True}


STREAM_KINDS = ("istream", "dstream", "rstream")


def plain_star(item: exp.Expr) -> exp.Select:
    """`SELECT * FROM item`."""
    return exp.Select(expressions=[exp.Star()], from_=exp.From(this=item))


def without_bare_values(tree: exp.Expr) -> exp.Expr:
    """The tree, modified in place, with `SELECT * FROM (VALUES …)` in place of each VALUES that is a query itself.

    >>> import sqlglot
    >>> without_bare_values(sqlglot.parse_one("VALUES (2), (1) ORDER BY 1 LIMIT 1")).sql()
    'SELECT * FROM (VALUES (2), (1)) AS _values ORDER BY 1 LIMIT 1'
    """
    for values in list(tree.find_all(exp.Values)):
        if values is tree or isinstance(values.parent, exp.Subquery | exp.In):
            select = _selected(values.copy())
            tree = select if values is tree else tree
            if isinstance(around := values.parent, exp.In):
                around.set("query", exp.Subquery(this=select))
                around.set("expressions", None)
            values.replace(select)
    return tree


def _selected(values: exp.Values) -> exp.Select:
    """`SELECT * FROM (VALUES …)`, with the ORDER BY and LIMIT of the VALUES."""
    select = plain_star(values)
    for part in ("order", "limit", "offset"):
        select.set(part, values.args.get(part))
        values.set(part, None)
    if not values.args.get("alias"):
        values.set("alias", exp.TableAlias(this=exp.to_identifier("_values")))
    return select


def stream_of_query(query: exp.Expr, kind: str, meta: dict[str, Any]) -> exp.Select:
    """The query whose rows are the stream of another query: `SELECT * FROM Istream(query)`."""
    stream = StreamOf(this=exp.Subquery(this=query), kind=kind)
    stream.meta.update(meta)
    return plain_star(stream)


def output_kind(select: exp.Expr) -> str | None:
    """The kind of stream that a query returns as a whole: istream, dstream, rstream, or None for a relation.

    >>> from dsms.sql.parser.queries import parse_query
    >>> output_kind(parse_query("SELECT Istream(a) FROM S [Now]"))
    'istream'
    """
    source = select.args.get("from_") if isinstance(select, exp.Select) else None
    is_stream = source is not None and isinstance(source.this, StreamOf) and _only_star(select)
    return str(source.this.args["kind"]) if source is not None and is_stream else None


def _only_star(select: exp.Expr) -> bool:
    more = [key for key, value in select.args.items() if value and key not in ("expressions", "from_", "with_")]
    return not more and [type(item) for item in select.expressions] == [exp.Star]
