"""CREATE FUNCTION, DROP FUNCTION and SHOW FUNCTIONS, for user-defined functions in Python."""

from __future__ import annotations

import msgspec

from dsms.model.catalog import Catalog
from dsms.model.statement_result import StatementResult
from dsms.model.user_defined import Function, FunctionVersion
from dsms.registration.environment import Applied, Environment, names_for_caller
from dsms.sql.binder.dependencies import dependents
from dsms.sql.binder.scalars.expression_functions import is_function_name
from dsms.sql.binder.scalars.python_functions import STARTS, definition_of, function_of
from dsms.sql.parser import functions as syntax
from dsms.statements.statement_kind import StatementKind, changes_named
from operators.aggregates import AGGREGATES
from operators.expressions import type_name
from operators.python import PythonFunction

_COLUMNS = ("name", "parameters", "returns", "hash", "requirements", "used_by")


def _create(statement: syntax.CreateFunction, catalog: Catalog, environment: Environment) -> Applied:
    """Adds a function, or a new version of one. Running queries keep the version with which they were created."""
    name, key = statement.name.text.lower(), f"{statement.name.text.lower()}()"
    if is_function_name(name) or name in AGGREGATES:
        raise statement.name.place.error(f'"{name}" is a built-in SQL function', "choose another name")
    known = catalog.get(key)
    if known is not None and not isinstance(known, Function):
        raise statement.name.place.error(f'"{key}" is an aggregate', "choose another name")
    if known is not None and not statement.replace:
        raise statement.name.place.error(
            f'a function named "{name}" already exists', "CREATE OR REPLACE FUNCTION replaces it for new queries"
        )
    definition = definition_of(statement)
    made = _made(known, FunctionVersion(catalog.ids + 1, statement.sql), key, catalog)
    after = catalog.with_objects({**catalog.objects, key: made}, new_ids=1)
    notices = [f"package {definition.package.hash}", *_limits(definition)]
    if known is not None and (users := dependents(catalog, known)):
        kept = names_for_caller(users, environment)
        notices.append(f"still on the old version: {kept}; CREATE OR REPLACE them to use the new one")
    verb = "created" if known is None else "replaced"
    return after, StatementResult(
        "CREATE FUNCTION", f'function "{_signature(definition)}" {verb}', notices=tuple(notices), name=key
    )


def _made(known: Function | None, version: FunctionVersion, key: str, catalog: Catalog) -> Function:
    """The function with one more version. Older ones are kept only if an object uses the function."""
    if known is None:
        return Function(name=key, id=catalog.next_id(), sql=version.sql, versions=(version,))
    kept = known.versions if dependents(catalog, known) else ()
    return msgspec.structs.replace(known, sql=version.sql, versions=(*kept, version))


def _signature(function: PythonFunction) -> str:
    parameters = ", ".join(f"{name} {type_name(type_)}" for name, type_ in function.parameters)
    return f"{function.name}({parameters}) returns {type_name(function.result)}"


def _limits(function: PythonFunction) -> list[str]:
    if function.package.registered:
        return ["it runs in the process of the session"]
    limits = function.limits
    return [f"a call may take {limits.seconds:g} s and {limits.bytes >> 20} MiB"]


def _drop(statement: syntax.DropFunction, catalog: Catalog, environment: Environment) -> Applied:
    name = statement.name.text.lower()
    found = catalog.get(f"{name}()")
    if not isinstance(found, Function):
        if statement.if_exists:
            return catalog, StatementResult("DROP FUNCTION", f'function "{name}" does not exist')
        readable = (function.name for function in catalog.functions() if environment.may_read(function.name))
        have = ", ".join(name.removesuffix("()") for name in readable)
        raise statement.name.place.error(f'function "{name}" not found', f"have: {have}" if have else "")
    if users := dependents(catalog, found):
        raise statement.name.place.error(
            f'function "{name}" is used by {names_for_caller(users, environment)}', "drop these first"
        )
    return catalog.without([found.name]), StatementResult("DROP FUNCTION", f'dropped "{name}"', name=found.name)


def _show(statement: syntax.ShowFunctions, catalog: Catalog, environment: Environment) -> Applied:
    readable = (function for function in catalog.functions() if environment.may_read(function.name))
    rows = tuple(_row(function, catalog, environment) for function in readable)
    return catalog, StatementResult("SHOW FUNCTIONS", f"{len(rows)} found", _COLUMNS, rows)


def _row(function: Function, catalog: Catalog, environment: Environment) -> tuple[object, ...]:
    name = function.name.removesuffix("()")
    definition = function_of(catalog, name)
    assert definition is not None
    return (
        name,
        ", ".join(f"{parameter} {type_name(type_)}" for parameter, type_ in definition.parameters),
        type_name(definition.result),
        definition.package.hash,
        ", ".join(definition.package.requirements),
        ", ".join(user.name for user in dependents(catalog, function) if environment.may_read(user.name)),
    )


KINDS = (
    # Python code runs on the executors, so an administrator is needed
    StatementKind(
        statement=syntax.CreateFunction,
        starts=STARTS,
        apply=_create,
        changed_names=changes_named,
        role="administrator",
        deploys_code=True,
        words=("RETURNS", "LANGUAGE", "PYTHON", "REQUIREMENTS", "PACKAGE"),
    ),
    StatementKind(
        statement=syntax.DropFunction,
        starts={("DROP", "FUNCTION"): syntax.drop_function},
        apply=_drop,
        changed_names=changes_named,
        role="administrator",
    ),
    StatementKind(
        statement=syntax.ShowFunctions,
        starts={("SHOW", "FUNCTIONS"): syntax.show_functions},
        apply=_show,
        role="reader",
    ),
)
