"""EXPLAIN RESULT shows the shedding rates and window sizes with which the result of a query was computed (PIPES,
Krämer's thesis, section 21.7).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from dsms.model import logical
from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.instants import instant_of
from dsms.model.objects import Query
from dsms.model.properties import sources, walk
from dsms.model.statement_result import Row, StatementResult
from dsms.sql.binder.bind import plan_of
from dsms.sql.parser.cursor import Cursor, place_of
from dsms.statements.context import Context, Logged
from dsms.statements.explain.plan import Explain
from dsms.statements.statement_kind import StatementKind, named
from operators.core.delta import BEGINNING, FOREVER
from operators.streams.preferred_values import Fraction, Preferred
from operators.streams.settings import LoggedSetting
from operators.windows.ranged_window import RangedWindow

_COLUMNS = ("source", "partition", "from offset", "before offset", "setting", "from instant", "to instant")
_EXACT = (
    "its shedding rates and window sizes never change while it runs: at every instant its result is exact for a prefix "
    "of the input"
)


@dataclass(frozen=True, slots=True)
class ExplainResult(st.Statement):
    """`EXPLAIN RESULT name [AT instant]`: the settings (such as shedding rates) under which the result of a query was
    computed, at all instants or at one."""

    name: st.Name
    at: int | None
    sql: str


def _parse(cursor: Cursor, _: st.Name | None) -> ExplainResult | Explain:
    if not cursor.more():  # EXPLAIN of an object called "result"
        return Explain(cursor.name_of(cursor.tokens[cursor.at - 1], "name"), None, cursor.sql)
    name, at = cursor.object_name("query name"), None
    if cursor.accept("AT"):
        at = _instant(cursor)
    cursor.end()
    return ExplainResult(name, at, cursor.sql)


def _instant(cursor: Cursor) -> int:
    cursor.accept("TIMESTAMP")
    token = cursor.next()
    text = token.text + (cursor.next().text if token.text == "-" else "")
    at = instant_of(text)
    if at is None:
        raise place_of(token).error(
            f'"{text[:40]}" is not an instant', "have: AT 1500, AT TIMESTAMP '2026-05-01 12:00:00'"
        )
    return at


def _answer(statement: ExplainResult, context: Context) -> StatementResult:
    return explain_result(statement, context.decisions(), context.catalog)


def explain_result(statement: ExplainResult, logged: Iterable[Logged], catalog: Catalog) -> StatementResult:
    """The settings of a query: a row for each source, partition and range of offsets with one setting, with the
    instants that the records of the range may have.

    With `AT`, a range is left out if its records are known to be too early or too late to contribute to the result at
    this instant.
    """
    target = catalog.find(statement.name.text, statement.name.place)
    if not isinstance(target, Query):
        hint = "ask for a query that reads it"
        raise statement.name.place.error(f'"{target.name}" has no result of its own', hint)
    if not target.adjustable:
        return StatementResult("EXPLAIN RESULT", f'"{target.name}" is exact', notices=(_EXACT,), name=target.name)
    histories, plan = _histories(target, logged), plan_of(target.name, catalog)
    named, windows = {source.id: source.name for source in sources(plan)}, _windows(plan)
    rows = [
        (named.get(source, source), partition, *row)
        for (source, partition), history in sorted(histories.items())
        for row in _History(history, windows.get(source, ())).rows(statement.at)
    ]
    when = "" if statement.at is None else f" at {statement.at}"
    message = (
        f'"{target.name}"{when}: {len(rows)} settings' if rows else f'"{target.name}"{when}: no setting was changed'
    )
    return StatementResult("EXPLAIN RESULT", message, _COLUMNS, tuple(rows), name=target.name)


def _histories(query: Query, logged: Iterable[Logged]) -> dict[tuple[str, int], list[LoggedSetting]]:
    """The decisions for a query by source and partition, in the order of offsets, beginning with the fraction 1."""
    histories: dict[tuple[str, int], list[LoggedSetting]] = {}
    for id_, place, decision in logged:
        if id_ == query.id:
            histories.setdefault(place, [LoggedSetting(0, 1.0)]).append(decision)
    return histories


def _windows(plan: logical.Node) -> dict[str, list[RangedWindow]]:
    """The windows with a range of sizes, by the source of their rows."""
    windows: dict[str, list[RangedWindow]] = {}
    for node in walk(plan):
        if isinstance(node, logical.Apply) and isinstance(node.function, RangedWindow):
            windows.setdefault(sources(node)[0].id, []).append(node.function)
    return windows


@dataclass(frozen=True)
class _History:
    """The decisions for a partition, and the windows over its rows. Without windows, decisions are shedding rates."""

    decisions: Sequence[LoggedSetting]
    windows: Sequence[RangedWindow]

    def rows(self, at: int | None) -> Iterator[Row]:
        """The settings that hold for some offset; if `at` is an instant, only those of records that can contribute to
        it.
        """
        following = [*self.decisions[1:], None]
        for decision, after in zip(self.decisions, following, strict=True):
            last = None if after is None else after.high
            empty = after is not None and after.offset == decision.offset
            if not empty and (at is None or self._can_contribute(decision.frontier, last, at)):
                before = None if after is None else after.offset
                first = None if decision.frontier == BEGINNING else decision.frontier
                yield decision.offset, before, self._shown(decision.fraction), first, last

    def _can_contribute(self, first: int, last: int | None, at: int) -> bool:
        """Whether a record with an instant from `first` to `last` can contribute to the result at an instant."""
        longest = max((window.most for window in self.windows), default=FOREVER)
        return first <= at and (last is None or at - longest <= last)

    def _shown(self, fraction: Fraction) -> str:
        if isinstance(fraction, Preferred):
            listed = f"{fraction.listed:.0%} of those with one of {len(fraction.values)} frequent values"
            return f"{fraction.fraction:.0%} of the records are used: {listed}, {fraction.others:.0%} of the others"
        if not self.windows:
            return f"{fraction:.0%} of the records are used"
        return "window of " + ", ".join(str(window.length(fraction)) for window in self.windows)


KIND = StatementKind(
    statement=ExplainResult,
    starts={("EXPLAIN", "RESULT"): _parse},
    answer=_answer,
    role="reader",
    read_name=named,
    words=("AT",),
)
