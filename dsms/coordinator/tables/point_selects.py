"""Answers SELECTs that look up rows of a view by key, from the results that are kept ready: without a process and, but
for the first of each shape, without parsing."""

from __future__ import annotations

import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import pyarrow as pa

from dsms.coordinator.results.kept_result import Found
from dsms.coordinator.results.relations import Relations
from dsms.coordinator.tables.reads import Reads
from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.freshness import answered_at, behind_ms
from dsms.model.limits import Limits
from dsms.model.objects import Query
from dsms.model.principal import Caller, Forbidden, Principal
from dsms.model.statement_result import StatementResult
from dsms.registration.object_columns import schema_and_keys
from dsms.statements.registry import parse, resolved_statement
from dsms.tables.one_time_query import OneTimeQuery, one_time_query_of
from dsms.tables.point_query import PointQuery, point_query_of
from dsms.tables.select_budget import Budget, limit_exceeded
from dsms.tables.text_shape import TextShape, shape_of, with_numbers
from dsms.tables.wanted_keys import KeyWriter
from operators.core.errors import DsmsError, UserError

_MOST_SHAPES = 1_000
#: Other shapes are not worth parsing twice: a point query has WHERE, and none of these words, unless in a name.
_MAY_BE_POINT = re.compile(r"\s*select\s.+\swhere\s", re.IGNORECASE | re.DOTALL)
_IS_NONE = re.compile(r"\b(?:join|group|order|limit|union|having|distinct|between|like|or|over)\b", re.IGNORECASE)


@dataclass(frozen=True)
class PointSelect:
    """A point query over a view, with the encoded keys that it wants."""

    asked: PointQuery
    view: Query
    keys: list[bytes]


@dataclass(frozen=True)
class Lookup:
    """A point query with its text and its caller."""

    sql: str
    select: PointSelect
    caller: Caller


#: A point query over a view, and what writes the view's keys.
_Meant = tuple[PointQuery, Query, KeyWriter]


@dataclass(frozen=True)
class _Shape:
    """What the text of a shape means with a catalog: a point query over a view, or something else."""

    catalog: Catalog
    meant: _Meant | None


class PointSelects:
    """Answers point queries. Several threads may use it."""

    def __init__(self, relations: Relations, catalog: Callable[[], Catalog], reads: Reads, limits: Limits) -> None:
        self._relations, self._catalog, self._reads, self._limits = relations, catalog, reads, limits
        self._lock = threading.Lock()
        self._shapes: OrderedDict[str, _Shape] = OrderedDict()

    def of(self, sql: str, *, known: bool = False) -> PointSelect | None:
        """The point query of a text; None for any other text. `known`: also None for a text of a shape that has not
        been parsed with the present catalog, so that nothing is parsed."""
        if not _MAY_BE_POINT.match(sql) or (shape := shape_of(sql)) is None:
            return None
        if not _MAY_BE_POINT.match(shape.text) or _IS_NONE.search(shape.text):
            return None
        if (meant := self._meant(shape, self._catalog(), known=known)) is None:
            return None
        asked, view, writer = meant
        keys = writer.wanted(asked.wanted(shape.values))
        return None if keys is None else PointSelect(asked, view, keys)

    def answer(self, select: PointSelect, principal: Principal, cancelled: threading.Event) -> StatementResult:
        """The rows at the last final instant. Raises Forbidden if the principal may not read the view."""
        (answered,) = self.answers([(select, principal)], cancelled)
        if isinstance(answered, DsmsError):
            raise answered
        return answered

    def answers(
        self, asked: Sequence[tuple[PointSelect, Principal]], cancelled: threading.Event
    ) -> list[StatementResult | DsmsError]:
        """The answers to point queries over one view, at one instant, each for its principal; Forbidden for one that
        may not read the view."""
        refused = [_refusal(select, principal) for select, principal in asked]
        allowed = [select for (select, _), refusal in zip(asked, refused, strict=True) if refusal is None]
        answers = iter(self._answers(allowed, cancelled) if allowed else [])
        return [next(answers) if refusal is None else refusal for refusal in refused]

    def _answers(self, asked: Sequence[PointSelect], cancelled: threading.Event) -> list[StatementResult | DsmsError]:
        view, budget = asked[0].view, Budget.of(self._limits, cancelled)
        with self._reads.reading():
            catalog = self._catalog()
            if (present := catalog.get(view.name)) is None or present.id != view.id:
                raise UserError(f'"{view.name}" was dropped meanwhile', hint="send the statement again")
            instant, found = self._relations.found_by_key(view, [each.keys for each in asked], catalog, budget)
        return [self._answer(each, instant, rows, budget) for each, rows in zip(asked, found, strict=True)]

    def _answer(self, select: PointSelect, instant: int, rows: Found, budget: Budget) -> StatementResult | DsmsError:
        try:
            answered = select.asked.answer(rows)
            if len(answered) > self._limits.select_rows:
                raise limit_exceeded("select_rows", f"the answer has more than {self._limits.select_rows} rows")
            budget.check_answer(len(answered.json))
        except DsmsError as error:
            return error
        return fresh(StatementResult("SELECT", "", select.asked.shown, answered, types=select.asked.types), instant)

    def _meant(self, shape: TextShape, catalog: Catalog, *, known: bool) -> _Meant | None:
        with self._lock:
            found = self._shapes.get(shape.text)
            if found is not None and found.catalog is catalog:
                self._shapes.move_to_end(shape.text)
                return found.meant
        if known:
            return None
        parsed = _Shape(catalog, self._parsed(shape, catalog))
        with self._lock:
            self._shapes[shape.text] = parsed
            self._shapes.move_to_end(shape.text)
            if len(self._shapes) > _MOST_SHAPES:
                self._shapes.popitem(last=False)
        return parsed.meant

    def _parsed(self, shape: TextShape, catalog: Catalog) -> _Meant | None:
        with suppress(UserError):  # the statement runs, and fails, with its own values
            statements = parse(with_numbers(shape.text), self._limits)
            meant = resolved_statement(statements[0], catalog) if len(statements) == 1 else None
            if isinstance(meant, st.Select) and meant.preference is None:
                return _over_view(one_time_query_of(meant.select, catalog, instants=True), catalog, len(shape.values))
        return None


def _refusal(select: PointSelect, principal: Principal) -> Forbidden | None:
    try:
        principal.check_read(select.view.name)
    except Forbidden as error:
        return error
    return None


def fresh(result: StatementResult, instant: int | None) -> StatementResult:
    """The answer to a SELECT at an instant, with a message that says how far it is behind the present."""
    behind, count = behind_ms(instant, time.time_ns() // 1_000_000), len(result.rows)
    message = f"{count} row{'' if count == 1 else 's'}{answered_at(instant, behind)}"
    return replace(result, message=message, instant=instant, behind_ms=behind)


def _over_view(asked: OneTimeQuery, catalog: Catalog, literals: int) -> _Meant | None:
    read = [catalog.find(name) for name in asked.objects.values()]
    if len(read) != 1 or not isinstance(view := read[0], Query) or view.periodic is not None:
        return None
    schema, keys = schema_and_keys(view, catalog)
    query = point_query_of(asked, schema, keys, literals)
    key_schema = pa.schema([schema.field(key) for key in keys])
    return None if query is None else (query, view, KeyWriter(key_schema, view.format, view.key_schema_id))
