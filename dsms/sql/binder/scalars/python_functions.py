"""Binds functions written in Python: turns the catalog's statements into definitions, and calls into expressions."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import pyarrow as pa
from sqlglot import exp

from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.position import error_at
from dsms.model.sizes import parse_size
from dsms.model.types import parse_type
from dsms.model.user_defined import Function
from dsms.sql.binder.scalars.expression_functions import PYTHON, Bind, arguments_of, written_name
from dsms.sql.parser import functions as syntax
from dsms.sql.parser.parse import parse
from operators.core.errors import UserError
from operators.expressions import Call, Expression, Literal, call, coerce, type_name
from operators.expressions.tree import DefinedCall
from operators.python import Limits, Package, PythonFunction, package_of

STARTS: Final = {
    ("CREATE", "FUNCTION"): syntax.create_function,
    ("CREATE", "OR", "REPLACE", "FUNCTION"): syntax.replace_function,
}
#: The most bytes of a function's source, which is stored in the catalog and in every plan that calls the function.
MAX_BYTES: Final = 256 << 10
_UNITS = {"MS": 0.001, "S": 1.0, "SECOND": 1.0, "SECONDS": 1.0}


def definition_of(statement: syntax.CreateFunction) -> PythonFunction:
    """The definition that a statement describes. Raises SqlError."""
    package = package_from(statement.code, statement.name)
    parameters = tuple((parameter.name.text, _type(parameter)) for parameter in statement.parameters)
    name, result = statement.name.text.lower(), _type(statement.returns)
    return PythonFunction(name, parameters, result, statement.code.handler, package, limits_of(statement.code))


def package_from(code: syntax.PythonCode, name: st.Name) -> Package:
    """The package of the code of a statement. Raises SqlError if the source is too large."""
    if len(code.source) > MAX_BYTES:
        raise name.place.error(
            f'the source of "{name.text}" may have at most {MAX_BYTES >> 10} KiB, not {len(code.source) >> 10}',
            "put libraries into the image of the executors and name them in REQUIREMENTS",
        )
    if code.registered is not None:
        return Package(code.registered, registered=True)
    return package_of(code.source, code.requirements)


def _type(definition: st.ColumnDefinition) -> pa.DataType:
    try:
        return parse_type(definition.type)
    except UserError as error:
        raise definition.name.place.error(error.message.rpartition(": ")[2], error.hint) from error


def limits_of(code: syntax.PythonCode) -> Limits:
    """The limits of one call of a function: seconds and bytes. Raises SqlError for invalid values."""
    by_name = {clause.name: clause for clause in code.limits}
    default = Limits()
    seconds, memory = by_name.get("time_limit"), by_name.get("memory")
    return Limits(
        default.seconds if seconds is None else _seconds(seconds),
        default.bytes if memory is None else _memory(memory),
    )


def _seconds(clause: st.Clause) -> float:
    number, _, unit = " ".join(clause.words).partition(" ")
    factor = _UNITS.get(unit.strip().upper() or "S")
    if factor is None or not number.replace(".", "", 1).isdecimal() or not float(number):
        raise clause.place.error("TIME_LIMIT needs a duration", "have: '5 s', '200 ms'")
    return float(number) * factor


def _memory(clause: st.Clause) -> int:
    text = " ".join(clause.words)
    size = parse_size(text) if text[:1].isdigit() else None
    if not size:
        raise clause.place.error("MEMORY needs a size", "have: '256 MB', '1 GiB'")
    return size


@lru_cache(maxsize=256)
def _definition(sql: str) -> PythonFunction:
    (statement,) = parse(sql, STARTS)
    assert isinstance(statement, syntax.CreateFunction)
    return definition_of(statement)


def function_of(catalog: Catalog, name: str) -> PythonFunction | None:
    """The current definition of a function; None if the catalog has no function of this name."""
    found = catalog.get(f"{name}()")
    return _definition(found.versions[-1].sql) if isinstance(found, Function) else None


def mark_functions(query: exp.Expr, catalog: Catalog) -> None:
    """Attaches the definitions of the catalog's functions to the calls of them, for `bind_expression`."""
    for node in query.find_all(exp.Func):
        if (found := function_of(catalog, written_name(node))) is not None:
            node.meta[PYTHON] = found


def bind_python_call(node: exp.Expr, function: PythonFunction, bind: Bind) -> Expression:
    """Binds a call and widens its arguments to the types of the parameters. Raises SqlError if they do not fit."""
    arguments = [bind(argument) for argument in arguments_of(node)]
    wanted = [type_ for _, type_ in function.parameters]
    if len(arguments) == len(wanted) and all(map(_fits, arguments, wanted)):
        return DefinedCall(
            f"{function.name}", tuple(map(coerce, arguments, wanted)), function.result, True, definition=function
        )
    given = ", ".join(type_name(argument.type) for argument in arguments)
    takes = ", ".join(type_name(type_) for type_ in wanted)
    raise error_at(node, f'"{function.name}" does not take ({given})', hint=f"it takes ({takes}); CAST the arguments")


def _fits(argument: Expression, wanted: pa.DataType) -> bool:
    """Whether an argument has the type, or one that SQL widens to it."""
    if argument.type == wanted or pa.types.is_null(argument.type):
        return True
    try:
        common: Call = call("coalesce", argument, Literal(None, wanted))
    except UserError:
        return False
    return common.type == wanted
