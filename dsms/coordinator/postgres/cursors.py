"""Cursors of a session: DECLARE, FETCH, MOVE and CLOSE over the rows of a SELECT, which is answered when the cursor is
declared. So a cursor needs no transaction. The end of a transaction closes those that were declared in it without HOLD.
"""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from dataclasses import dataclass, field, replace

from dsms.coordinator.postgres.parameters import without_comments, words
from dsms.coordinator.postgres.statements import Outcome, SqlFailure
from dsms.model.statement_result import EncodedRows, Row, StatementResult

#: The name of a cursor, CLOSE and DISCARD ALL, also for cursors over subscriptions.
NAME = r'(?P<name>"(?:[^"]|"")+"|\w+)'
_DECLARE = re.compile(
    rf"\s*declare\s+{NAME}\s+(?:(?:binary|insensitive|asensitive|no\s+scroll|scroll)\s+)*cursor\s+"
    r"(?:(?P<hold>with|without)\s+hold\s+)?for\s+(?P<query>.+)",
    re.IGNORECASE | re.DOTALL,
)
_MOVING = re.compile(
    r"\s*(?P<verb>fetch|move)\s+(?:(?P<way>next|prior|first|last|absolute|relative|forward|backward)\b\s*)?"
    rf"(?:(?P<count>[+-]?\d{{1,18}}|all)\b\s*)?(?:(?:from|in)\s+)?{NAME}\s*;?\s*",
    re.IGNORECASE,
)
CLOSE = re.compile(rf"\s*close\s+{NAME}\s*;?\s*", re.IGNORECASE)
DISCARD_ALL = re.compile(r"\s*discard\s+all\s*;?\s*", re.IGNORECASE)
#: The first words of statements that a cursor may be over.
_READING = (("SELECT",), ("WITH",), ("VALUES",))
#: More cursors, rows or bytes in a session would keep too much in memory.
_MOST_CURSORS, _MOST_ROWS, _MOST_BYTES = 100, 1_000_000, 64 * 1024 * 1024


class CursorFailure(Exception):
    """A statement about cursors that fails; the argument is the reason for the client."""

    def __init__(self, code: str, reason: str, hint: str | None = None) -> None:
        super().__init__(reason)
        self.failure = SqlFailure(code, reason, hint)


def same_cursor(name: str) -> CursorFailure:
    """There is a cursor of this name already."""
    return CursorFailure("42P03", f'cursor "{name}" already exists', f'CLOSE "{name}" first')


def no_cursor(name: str) -> CursorFailure:
    """There is no cursor of this name."""
    return CursorFailure("34000", f'cursor "{name}" does not exist', "DECLARE it first")


@dataclass
class Cursor:
    """The answer of a query, its rows, and the position: the number of the row that was read last, from 1 on; 0 is
    before the first row, and the number of rows and one is after the last."""

    outcome: Outcome
    rows: Sequence[Row]
    at: int = 0
    #: Whether it stays open when the transaction ends.
    held: bool = False

    def moved(self, way: str, count: int | None) -> Sequence[Row]:
        """Moves as FETCH and MOVE of PostgreSQL do, and returns the rows passed; `count` None means ALL.

        >>> cursor = Cursor(Outcome(StatementResult("SELECT", "")), [(1,), (2,), (3,)])
        >>> cursor.moved("forward", 2), cursor.moved("forward", 5), cursor.moved("backward", 1)
        ([(1,), (2,)], [(3,)], [(3,)])
        """
        match way:
            case "next" | "forward":
                return self._forward(count) if count is None or count >= 0 else self._backward(-count)
            case "prior" | "backward":
                return self._backward(count) if count is None or count >= 0 else self._forward(-count)
            case "first":
                return self._absolute(1)
            case "last":
                return self._absolute(-1)
            case "relative":
                return self._absolute(max(0, self.at + (count or 0)))
            case _:
                return self._absolute(count or 0)

    def _forward(self, count: int | None) -> Sequence[Row]:
        if count == 0:
            return self._current()
        end = len(self.rows) if count is None else self.at + count
        passed = self.rows[self.at : end]
        self.at = min(end, len(self.rows) + 1) if count is not None else len(self.rows) + 1
        return passed

    def _backward(self, count: int | None) -> Sequence[Row]:
        if count == 0:
            return self._current()
        first = 0 if count is None else max(0, self.at - 1 - count)
        passed = list(self.rows[first : max(0, self.at - 1)])[::-1]
        self.at = 0 if count is None else max(0, self.at - count)
        return passed

    def _absolute(self, number: int) -> Sequence[Row]:
        self.at = number if number >= 0 else max(0, len(self.rows) + 1 + number)
        self.at = min(self.at, len(self.rows) + 1)
        return self._current()

    def _current(self) -> Sequence[Row]:
        return self.rows[self.at - 1 : self.at] if self.at else []


@dataclass(frozen=True)
class Declared:
    """A DECLARE: the name of the cursor, its query, and whether it is WITH HOLD."""

    name: str
    query: str
    held: bool


@dataclass
class Cursors:
    """The open cursors of a session by name, and those of its named portals, which are cursors, too."""

    opened: dict[str, Cursor] = field(default_factory=dict)
    of_portals: dict[str, Cursor] = field(default_factory=dict)

    def declared(self, sql: str, others: Container[str] = ()) -> Declared | None:
        """The DECLARE in a text; None for any other statement. `others` are the names of other cursors. Raises
        CursorFailure if there are too many cursors, or one of this name."""
        if (found := _DECLARE.fullmatch(without_comments(sql))) is None:
            return None
        name = cursor_name(found["name"])
        if name in self.opened or name in others:
            raise same_cursor(name)
        if not found["query"].lstrip().startswith("(") and words(found["query"], 1) not in _READING:
            raise CursorFailure("42P11", "a cursor is for SELECT, WITH, VALUES or SUBSCRIBE")
        if len(self.opened) >= _MOST_CURSORS:
            raise CursorFailure("53400", f"a session has at most {_MOST_CURSORS} cursors", "close some of them")
        return Declared(name, found["query"].strip().rstrip(";"), (found["hold"] or "").lower() == "with")

    def open(self, declared: Declared, outcome: Outcome, *, held: bool) -> Outcome:
        """Opens a cursor over the answer of its query; `held`: it stays open when the transaction ends."""
        if not outcome.types:
            raise CursorFailure("42P11", "a cursor needs a statement that returns rows")
        if sum(len(each.rows) for each in self.opened.values()) + len(outcome.result.rows) > _MOST_ROWS:
            raise CursorFailure("53400", f"the cursors of a session have at most {_MOST_ROWS:,} rows together")
        if sum(_bytes(each.outcome) for each in self.opened.values()) + _bytes(outcome) > _MOST_BYTES:
            raise CursorFailure("53400", f"the cursors of a session have at most {_MOST_BYTES:,} bytes together")
        self.opened[declared.name] = Cursor(outcome, outcome.result.rows[:], held=held)
        return Outcome(StatementResult("DECLARE CURSOR", "", notices=outcome.result.notices))

    def answer(self, sql: str) -> Outcome | None:
        """The outcome of FETCH, MOVE and CLOSE; None for any other statement. Raises CursorFailure for an unknown
        cursor."""
        plain = without_comments(sql)
        if DISCARD_ALL.fullmatch(plain):
            self.opened.clear()  # among other things, so this is no answer
        if (closed := CLOSE.fullmatch(plain)) is not None:
            return self._closed(closed["name"])
        if (found := _MOVING.fullmatch(plain)) is None:
            return None
        cursor, way = self._cursor(found["name"]), (found["way"] or "forward").lower()
        passed = cursor.moved(way, _count(found["count"]))
        if found["verb"].lower() == "move":
            return Outcome(StatementResult(f"MOVE {len(passed)}", ""))
        result = replace(cursor.outcome.result, statement="FETCH", rows=tuple(passed), notices=())
        return replace(cursor.outcome, result=result)

    def columns(self, name: str) -> Outcome | None:
        """An outcome without rows that has the columns of a cursor; None for an unknown one."""
        if (cursor := self.opened.get(name)) is None:
            return None
        return replace(cursor.outcome, result=replace(cursor.outcome.result, rows=()))

    def end_transaction(self) -> None:
        """Closes the cursors that are not held."""
        self.opened = {name: cursor for name, cursor in self.opened.items() if cursor.held}

    def _closed(self, written: str) -> Outcome:
        if written.lower() == "all":
            self.opened.clear()
            return Outcome(StatementResult("CLOSE CURSOR ALL", ""))
        self._cursor(written)
        self.opened.pop(cursor_name(written), None)
        return Outcome(StatementResult("CLOSE CURSOR", ""))

    def _cursor(self, written: str) -> Cursor:
        name = cursor_name(written)
        if (cursor := self.opened.get(name) or self.of_portals.get(name)) is None:
            raise no_cursor(name)
        return cursor


def _count(written: str | None) -> int | None:
    if written is None:
        return 1
    return None if written.lower() == "all" else int(written)


def cursor_name(written: str) -> str:
    """The name of a cursor, which is in small letters unless it is written in quotes."""
    return written[1:-1].replace('""', '"') if written.startswith('"') else written.lower()


def without_moving(sql: str) -> str | None:
    """A FETCH that does not move the cursor, to learn its columns; None for any other statement.

    >>> without_moving('FETCH FORWARD 5 FROM "c d"'), without_moving("MOVE c")
    ('FETCH FORWARD 0 FROM "c d"', None)
    """
    found = _MOVING.fullmatch(without_comments(sql))
    return f"FETCH FORWARD 0 FROM {found['name']}" if found and found["verb"].lower() == "fetch" else None


def _bytes(outcome: Outcome) -> int:
    """The size of the rows of an answer, as far as it is known."""
    rows = outcome.result.rows
    return len(rows.json) if isinstance(rows, EncodedRows) else 0
