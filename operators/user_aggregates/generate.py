"""Generates, for each definition, a Python function that runs the events of a batch, group after group."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from types import CodeType
from typing import Any, Final

from operators.core.errors import InternalError, UserError
from operators.user_aggregates.definition import WINDOW_TABLE, Definition, Statement, StatementLocation
from operators.user_aggregates.expression_code import HELPERS, Code
from operators.user_aggregates.python_events import value_of_rows
from operators.user_aggregates.rows import LimitReached, Rows
from operators.user_aggregates.statement_code import StatementCoder
from operators.user_aggregates.writer import Nulls, Writer

#: The actions of an event, as bits, in the order of execution: start over, the row leaves, the row enters, TERMINATE
#: runs.
RESTART, LEAVE, COME, END = 8, 2, 1, 4
EVERY_CODE: Final = frozenset({0, RESTART | LEAVE | COME | END})
#: The limit of the steps of loops that a clause may take for one event.
MAX_STEPS: Final = 10_000_000
_NAMES = re.compile(
    r"i|code|number|gone|instant|random|group|key|row|value|steps|live|arrived|codes|sizes|states|tables|windows|events|size"
    r"|at|returned|returned_at|run|islice|zip|enumerate|state|table|window|later\d+|inner\d+"
    r"|[a-z]\d+|q\d+_found|P_\w+|V_\w+|T_\w+|S_\w+|F_\w+|B_\w+"
)
_METHODS = {
    "add", "append", "clear", "delete", "endswith", "get", "insert", "items", "lower", "oldest", "sort",
    "startswith", "update", "upper",
}  # fmt: skip
_ALLOWED = (
    ast.Module, ast.FunctionDef, ast.arguments, ast.arg, ast.Assign, ast.AugAssign, ast.For, ast.While, ast.If,
    ast.Expr, ast.Raise, ast.Break, ast.Continue, ast.Pass, ast.Return, ast.Name, ast.Load, ast.Store, ast.Constant,
    ast.Tuple, ast.List, ast.Dict, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.NamedExpr, ast.Call,
    ast.Attribute, ast.Subscript, ast.Slice, ast.Lambda, ast.keyword, ast.operator, ast.unaryop, ast.boolop, ast.cmpop,
)  # fmt: skip


class BodyFailed(UserError):
    """A statement in the body of an aggregate failed or took too long."""


@dataclass(frozen=True)
class Generated:
    """The compiled function of a definition. `indexes` has the indexes that each of its tables needs, by table name."""

    definition: Definition
    function: Callable[..., Any]
    indexes: dict[str, list[tuple[int, ...]]]
    places: Sequence[StatementLocation | None]
    source: str

    def run(self, *arguments: Any, describe: Callable[[int], str] = str) -> Any:
        """Runs the events. If a statement fails, raises BodyFailed with its line in the definition, and with the event,
        which `describe` turns into text."""
        try:
            return self.function(*arguments)
        except (LimitReached, OverflowError, ArithmeticError, MemoryError, ValueError, TypeError) as error:
            raise self._failure(error, describe) from error

    def _failure(self, error: Exception, describe: Callable[[int], str]) -> UserError:
        trace = error.__traceback__
        place, event = None, None
        while trace is not None:
            if trace.tb_frame.f_code is self.function.__code__:
                place, event = self.places[trace.tb_lineno - 1], trace.tb_frame.f_locals.get("i")
            trace = trace.tb_next
        if isinstance(error, TypeError | ValueError):
            raise InternalError(f'generated code of aggregate "{self.definition.name}" failed: {error}') from error
        where = "" if place is None else f' in line {place.line}, "{place.text}"'
        row = "" if event is None else f", at {describe(event)}"
        return BodyFailed(f'aggregate "{self.definition.name}" failed{where}{row}: {error}')


@lru_cache(maxsize=256)
def generated(definition: Definition, *, nulls: bool, codes: frozenset[int]) -> Generated:
    """The function for events whose actions are among `codes`. Without `nulls`, the function requires that no argument
    is NULL, and that a stored value is NULL only in a column that some statement may set to NULL."""
    every = ((table.name, name) for table in definition.tables for name, _ in table.columns)
    columns = set(every) if nulls else set[tuple[str, str]]()
    while True:
        found = Nulls(columns)
        written = _function(definition, found, codes, arguments_null=nulls)
        if not found.grown:
            return _compiled(definition, *written)


def _function(
    definition: Definition, nulls: Nulls, codes: frozenset[int], *, arguments_null: bool
) -> tuple[Writer, StatementCoder]:
    writer = Writer()
    names = {f"p:{name}": Code(f"P_{at}", arguments_null) for at, (name, _) in enumerate(definition.parameters)}
    names |= {"now": Code("instant", False), "random": Code("random", False)}
    coder = StatementCoder(definition, writer, names, nulls)
    if codes != EVERY_CODE:  # all variants number the indexes alike
        every = generated(definition, nulls=True, codes=EVERY_CODE)
        coder.indexes = {table: list(indexes) for table, indexes in every.indexes.items()}
        coder.indexes_known = True
    parameters = "".join(f"P_{at}, " for at in range(len(definition.parameters)))
    head = "def run(sizes, events, states, tables, windows, returned_at, returned):"
    with writer.block(head), writer.block("for at, size in enumerate(sizes):"):
        _load(definition, writer)
        begun, depth = len(writer.lines), writer.depth
        with writer.block(f"for i, code, number, instant, random, {parameters} in islice(events, size):"):
            _event(definition, writer, coder, codes)
        variables = "".join(f"V_{name}, " for name, _ in definition.variables)
        for table in sorted(coder.changed):
            writer.insert(begun, depth, f"B_{table} = T_{table}.before")
        for table, index in sorted(coder.searched):
            writer.insert(begun, depth, f"F_{table}_{index} = T_{table}.find[{index}]")
        writer.place = None
        writer.line(f"states[at] = ({variables}) if live else None")
    return writer, coder


def _load(definition: Definition, writer: Writer) -> None:
    """Writes code that loads the state of the next group into local variables."""
    writer.line("state = states[at]")
    writer.line("live = state is not None")
    if definition.stored:
        writer.line(f"{''.join(f'T_{table.name}, ' for table in definition.stored)} = tables[at]")
    if definition.reads_window:
        writer.line(f"T_{WINDOW_TABLE} = windows[at]")
    if definition.variables:
        with writer.block("if live:"):
            writer.line(f"{''.join(f'V_{name}, ' for name, _ in definition.variables)} = state")


def _event(definition: Definition, writer: Writer, coder: StatementCoder, codes: frozenset[int]) -> None:
    if any(code & RESTART for code in codes):
        with _when(writer, RESTART, codes):
            writer.line("live = False")
            for table in definition.stored:
                writer.line(f"T_{table.name}.clear()")
            if definition.reads_window:
                writer.line(f"T_{WINDOW_TABLE}.clear()")
    if any(code & LEAVE for code in codes):
        with _when(writer, LEAVE, codes):
            _leave(definition, writer, coder)
    if any(code & COME for code in codes):
        with _when(writer, COME, codes):
            _come(definition, writer, coder)
    if any(code & END for code in codes):
        with _when(writer, END, codes):
            _clause(definition.terminate, writer, coder)


def _when(writer: Writer, bit: int, codes: frozenset[int]) -> Any:
    always = all(code & bit for code in codes)
    return writer.block("if True:" if always else f"if code & {bit}:")


def _leave(definition: Definition, writer: Writer, coder: StatementCoder) -> None:
    if not definition.reads_window:
        _clause(definition.expire or (), writer, coder)
        return
    with writer.block(f"if number in T_{WINDOW_TABLE}.rows:"):
        _clause(definition.expire or (), writer, coder)
        writer.place = None
        writer.line(f"T_{WINDOW_TABLE}.delete(number)")


def _come(definition: Definition, writer: Writer, coder: StatementCoder) -> None:
    if definition.reads_window:
        row = ", ".join(f"P_{at}" for at in range(len(definition.inwindow)))
        writer.line(f"T_{WINDOW_TABLE}.add(number, [{row}, instant])")
        writer.line("arrived = number")
        for name, (parameter, _) in zip(definition.inwindow, definition.parameters, strict=True):
            coder.nulls.assign(WINDOW_TABLE, name, coder.names[f"p:{parameter}"])
    with writer.block("if live:"):
        _clause(definition.iterate, writer, coder)
    with writer.block("else:"):
        writer.line("live = True")
        _clause(definition.initialize, writer, coder)


def _clause(statements: Sequence[Statement], writer: Writer, coder: StatementCoder) -> None:
    at, coder.loops = len(writer.lines), False
    coder.clause(statements)
    writer.place = None
    if coder.loops:
        writer.insert(at, writer.depth, f"steps = {MAX_STEPS}")


def _compiled(definition: Definition, writer: Writer, coder: StatementCoder) -> Generated:
    source = "\n".join(writer.lines)
    code = _code(source, definition.name)
    inner = {name: _evaluation(inner_definition) for name, inner_definition in coder.inner.items()}
    scope: dict[str, Any] = {
        "__builtins__": {},
        **HELPERS,
        **inner,
        "islice": islice,
        "enumerate": enumerate,
        "list": list,
        "tuple": tuple,
    }
    exec(code, scope)
    return Generated(definition, scope["run"], coder.indexes, writer.places, source)


def _code(source: str, name: str) -> CodeType:
    """The checked code. Raises UserError if the statements are nested more deeply than Python allows for blocks."""
    try:
        tree = ast.parse(source)
        _check(tree)
        return compile(tree, f"<aggregate {name}>", "exec")
    except (SyntaxError, RecursionError) as error:
        message = f'the statements of aggregate "{name}" are nested too deeply, or a SELECT reads too many tables'
        raise UserError(message, hint="nest at most 15 loops, tables and IFs in each other") from error


def _check(tree: ast.AST) -> None:
    """Raises InternalError if code could reach anything but its own names."""
    for node in ast.walk(tree):
        if not isinstance(node, _ALLOWED):
            raise InternalError(f"generated code contains {type(node).__name__}")
        if isinstance(node, ast.Attribute) and node.attr not in (*_METHODS, "before", "find", "rows"):
            raise InternalError(f'generated code uses the attribute "{node.attr}"')
        if (
            isinstance(node, ast.Name)
            and node.id not in HELPERS
            and not _NAMES.fullmatch(node.id)
            and node.id not in ("list", "tuple")
        ):
            raise InternalError(f'generated code uses the name "{node.id}"')


def _evaluation(definition: Definition) -> Callable[[list[tuple[object, ...]]], object]:
    """A function that evaluates a base definition over rows of arguments, for calls in other aggregates' bodies."""

    def evaluate(rows: list[tuple[object, ...]]) -> object:
        made: list[object] = []
        if definition.python is not None:
            made = value_of_rows(definition.python, rows, come=COME, end=END) if rows else []
            return made if definition.returns_many else made[0] if made else None
        code = generated(definition, nulls=True, codes=frozenset({COME, COME | END}))
        last = len(rows) - 1
        events = ((at, COME | END if at == last else COME, 0, 0, 0.0, *row) for at, row in enumerate(rows))
        tables = tuple(Rows(code.indexes[table.name]) for table in definition.stored)
        code.run([len(rows)], events, [None], [tables], [], lambda _: None, made.append)
        return made if definition.returns_many else made[0] if made else None

    return evaluate
