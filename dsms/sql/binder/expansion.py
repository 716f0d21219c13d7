"""Makes defaults of a query explicit: replaces views of the current instant, which select MAX(Timepoint) from the
clock, by Now, and adds the default windows of CQL and PIPES."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from dsms.model.catalog import Catalog
from dsms.model.objects import Query, Stream
from dsms.model.position import error_at
from dsms.sql.binder.default_streams import add_default_stream, default_stream_notice, windows_with_default_stream
from dsms.sql.binder.scalars.now_bounds import NOW_HINT, POINTS
from dsms.sql.binder.scope import ColumnNotFound
from dsms.sql.binder.streams.clock import CLOCK, ClockView, clock_view, is_clock, view_tree
from dsms.sql.parser import nodes
from dsms.sql.parser.table_names import name_of
from operators.core.errors import SqlError

_CLOCK_HINT = (
    "read a relation at points of time: FROM R[Sync](S), or R[Sync ∪ Events](S) to unite them with those of a stream; "
    "Now is the current instant"
)


def expanded(query: exp.Expr, catalog: Catalog) -> exp.Expr:
    """Modifies the query in place: replaces columns of views over MAX(Timepoint) by Now; if the query has PIPES
    windows, gives streams without a window one of the current instant. Raises SqlError if the clock is read in a
    place where only relations are allowed."""
    for select in list(query.find_all(exp.Select)):
        _without_now_views(select, catalog)
    _check_clock(query, catalog)
    if _notation(query) == "pipes":
        for table in _bare_streams(query, catalog):
            _wrap(table, nodes.StreamWindow(kind="now", notation="pipes"))
    return query


def misplaced_now(error: SqlError) -> SqlError:
    """The error itself, or a clearer one if Now was used where only columns are allowed."""
    if not isinstance(error.__cause__, ColumnNotFound) or not error.__cause__.message.lower().startswith(
        'column "now"'
    ):
        return error
    return SqlError("Now is not supported here", line=error.line, column=error.column, hint=NOW_HINT)


def default_windows(query: exp.Expr, catalog: Catalog) -> tuple[str, ...]:
    """The default windows of a CQL or PIPES query and the default Istream of what CQL's windows are applied to, as
    notices for the user who creates the query.

    >>> from dsms.sql.parser.queries import parse_query
    >>> default_windows(parse_query("SELECT a FROM S [Now]"), Catalog())
    ()
    """
    window = {"cql": "[Range Unbounded]", "pipes": "WINDOW(RANGE 1)"}.get(_notation(query) or "")
    tables = _bare_streams(query, catalog) if window else ()
    default = dict.fromkeys(f"default window of {name_of(table)}: {window}" for table in tables)
    streams = windows_with_default_stream(expanded(query.copy(), catalog), catalog)
    return (*default, *dict.fromkeys(map(default_stream_notice, streams)))


def written_out(query: exp.Expr, catalog: Catalog, *, as_istream: bool = False) -> exp.Expr:
    """The query with all defaults explicit: `expanded`, and the windows and streams that CQL adds. With `as_istream`,
    one of these is the Istream of the whole query."""
    tree = expanded(query.copy(), catalog)
    if _notation(tree) == "cql":
        for table in list(_bare_streams(tree, catalog)):
            _wrap(table, nodes.StreamWindow(kind="range", notation="cql"))
    for window in list(windows_with_default_stream(tree, catalog)):
        add_default_stream(window)
    return nodes.stream_of_query(tree, "istream", {}) if as_istream else tree


def _notation(query: exp.Expr) -> str | None:
    """The notation whose defaults apply: CQL if the query has brackets or Istream, PIPES if it has WINDOW(…)."""
    windows = {window.args["notation"] for window in query.find_all(nodes.StreamWindow)}
    if "cql" in windows or query.find(nodes.StreamOf):
        return "cql"
    return "pipes" if windows else None


def _bare_streams(query: exp.Expr, catalog: Catalog) -> Iterator[exp.Table]:
    """The append-only streams that are read without a window."""
    for table in list(query.find_all(exp.Table)):
        in_from = isinstance(_item(table).parent, exp.From | exp.Join) and isinstance(table.this, exp.Identifier)
        named = catalog.get(name_of(table)) if in_from else None
        if isinstance(named, Stream) and not named.keys and not _is_cte(table):
            yield table


def _item(table: exp.Table) -> exp.Expr:
    """The item of FROM that reads a stream: the table, or its Sample."""
    item: exp.Expr = table
    while isinstance(item.parent, nodes.StreamSample):
        item = item.parent
    return item


def _wrap(table: exp.Table, window: nodes.StreamWindow) -> None:
    item = _item(table)
    item.replace(window)
    window.set("this", item)


def _is_cte(table: exp.Table) -> bool:
    names = {cte.alias.lower() for cte in table.root().find_all(exp.CTE)}
    return table.name.lower() in names


# --- views of the current instant


def _without_now_views(select: exp.Select, catalog: Catalog) -> None:
    """Removes views of the current instant from FROM and replaces their columns by Now or by their constants."""
    for table in [source.this for source in _from_items(select) if isinstance(source.this, exp.Table)]:
        view = _now_view(table, catalog)
        if view is not None:
            _check_place(select, table)
            _replace_columns(select, table.alias or name_of(table), view)
            _remove(select, table)


def _from_items(select: exp.Select) -> list[exp.Expr]:
    source = select.args.get("from_")
    return [] if source is None else [source, *(select.args.get("joins") or [])]


def _now_view(table: exp.Table, catalog: Catalog) -> ClockView | None:
    if not isinstance(table.this, exp.Identifier | exp.Anonymous):
        return None
    named = catalog.get(_name_or_empty(table))
    if not isinstance(named, Query) or named.periodic is None:
        return None
    view = clock_view(view_tree(named), catalog)
    return view if view is not None and view.outputs else None


def _name_or_empty(table: exp.Table) -> str:
    """The name of a table reference, or "" for functions in FROM, which binding refuses."""
    arguments = getattr(table.this, "expressions", [])
    plain = isinstance(table.this, exp.Identifier) or (len(arguments) == 1 and isinstance(arguments[0], exp.Column))
    return name_of(table) if plain and table.this.name.upper() in (table.name.upper(), "R", "ℜ") else ""


def _check_place(select: exp.Select, table: exp.Table) -> None:
    if len(_from_items(select)) == 1:
        raise error_at(table, "a query cannot read the current instant alone", hint=_CLOCK_HINT)
    join = table.parent
    if isinstance(join, exp.Join) and (join.side or join.args.get("using") or join.kind in ("SEMI", "ANTI")):
        raise error_at(table, "the current instant can only be joined by a comma or an inner join")
    if any(isinstance(item, exp.Star) for item in select.expressions):
        hint = "use R.* for the columns of relation R"
        raise error_at(select.expressions[0], "* would include the current instant", hint=hint)


def _replace_columns(select: exp.Select, alias: str, view: ClockView) -> None:
    constants = {name.lower(): value for name, value in view.outputs}
    for column in list(select.find_all(exp.Column)):
        if column.table.lower() not in ("", alias.lower()) or column.name.lower() not in constants:
            continue
        value = constants[column.name.lower()]
        column.replace(value.copy() if value is not None else _now_at(column, view))


def _now_at(column: exp.Column, view: ClockView) -> exp.Column:
    """Now, with the location of the column that it replaces."""
    now = exp.column("Now")
    place = next((part.meta for part in column.walk() if "line" in part.meta), {})
    now.this.meta.update(place)
    if view.points.period != 1:
        now.meta[POINTS] = view.points
    return now


def _remove(select: exp.Select, table: exp.Table) -> None:
    """Removes an item from FROM and moves the condition of its join to WHERE."""
    join = table.parent
    if isinstance(join, exp.Join):
        if (on := join.args.get("on")) is not None:
            select.where(on, copy=False)
        select.set("joins", [other for other in select.args["joins"] if other is not join])
        return
    first, *rest = select.args["joins"]
    if (on := first.args.get("on")) is not None:
        select.where(on, copy=False)
    select.args["from_"].set("this", first.this)
    select.set("joins", rest)


def _check_clock(query: exp.Expr, catalog: Catalog) -> None:
    """Raises SqlError if the clock or a stream over it is used anywhere but as points of time."""
    for table in query.find_all(exp.Table):
        if isinstance(table.parent, nodes.SyncRelation) and table.arg_key == "expressions":
            continue
        name = _name_or_empty(table)
        named = catalog.get(name)
        if is_clock(name) or (isinstance(named, Query) and named.periodic is not None):
            noun = "the clock" if is_clock(name) else f"a stream over {CLOCK}"
            raise error_at(table, f'"{name}" is {noun}: a query over it would return every instant', hint=_CLOCK_HINT)
