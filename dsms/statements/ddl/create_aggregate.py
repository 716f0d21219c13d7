"""CREATE AGGREGATE, in SQL or in Python."""

from __future__ import annotations

import msgspec

from dsms.model.catalog import Catalog
from dsms.model.objects import kind_of
from dsms.model.statement_result import StatementResult
from dsms.model.user_defined import Aggregate, AggregatePart
from dsms.registration.environment import Applied, Environment
from dsms.sql.binder.aggregates.aggregate_calls import can_be_called
from dsms.sql.binder.aggregates.defined_aggregates import definition_of, text_of
from dsms.sql.binder.dependencies import calls_in_body, dependents
from dsms.sql.binder.scalars.expression_functions import is_function_name
from dsms.sql.parser.aggregates import STARTS, AggregateSyntax, CreateAggregate, CreatePythonAggregate
from dsms.statements.statement_kind import StatementKind, changes_named
from operators.aggregates import AGGREGATES
from operators.python import PythonClass


def _apply(statement: AggregateSyntax, catalog: Catalog, environment: Environment) -> Applied:
    """Adds an aggregate, its second definition, or a newer version. Running queries keep the version that they have."""
    name = f"{statement.name.text.lower()}()"
    known = catalog.get(name)
    if known is not None and not isinstance(known, Aggregate):
        raise statement.name.place.error(f'"{name}" is a {kind_of(known)}', "choose another name")
    own = name.removesuffix("()")
    if is_function_name(own) or not can_be_called(own, len(statement.parameters)):
        hint = "choose another name: queries would not call the aggregate"
        raise statement.name.place.error(f'"{own}" is a built-in SQL function', hint)
    python = isinstance(statement, CreatePythonAggregate)
    part = AggregatePart(
        catalog.ids + 1, statement.sql, window=statement.window, algebraic=statement.algebraic, python=python
    )
    existing = None if known is None else known.part(window=statement.window)
    if existing is not None and not statement.replace:
        raise statement.name.place.error(
            f'aggregate "{name}" already has a {_kind(part)} definition',
            "CREATE OR REPLACE AGGREGATE replaces it for new queries",
        )
    made = (
        Aggregate(name=name, id=catalog.next_id(), sql=statement.sql, parts=(part,))
        if known is None
        else (_with_part(known, part, catalog))
    )
    after = catalog.with_objects({**catalog.objects, name: made}, new_ids=1)
    text = text_of(after, name.removesuffix("()"), window=statement.window)
    assert text is not None
    typed = all(parameter.type is not None for parameter in statement.parameters)
    notices = []
    if typed:
        definition = definition_of(text, None)
        notices.append("blocking: it returns at the end of its input" if definition.blocking else "non-blocking")
        notices += ["EXPIRE handles rows that leave"] if definition.inverse else []
        notices += _notices(definition.python) if definition.python is not None else []
    else:
        notices.append("its types are checked where it is called")
    if name.removesuffix("()") in AGGREGATES:
        notices.append(f'new queries call it instead of the built-in "{name}"')
    message = f'{_kind(part)} definition of aggregate "{name}" {"replaced" if existing is not None else "created"}'
    return after, StatementResult("CREATE AGGREGATE", message, notices=tuple(notices), name=name)


def _with_part(known: Aggregate, part: AggregatePart, catalog: Catalog) -> Aggregate:
    """The aggregate with one more definition. Older ones of the same kind are kept only if an object uses the
    aggregate."""
    used = bool(dependents(catalog, known))
    parts = tuple(other for other in known.parts if used or other.window != part.window)
    current = [other for other in (*parts, part) if other.window != part.window or other is part]
    shown = {other.window: other.sql for other in current}
    return msgspec.structs.replace(known, parts=(*parts, part), sql=";\n".join(shown.values()))


def _notices(made: PythonClass) -> list[str]:
    if made.package.registered:
        return ["it runs in the process of the session"]
    limits = f"a call may take {made.limits.seconds:g} s and {made.limits.bytes >> 20} MiB"
    return [f"package {made.package.hash}", limits]


def _kind(part: AggregatePart) -> str:
    return "window" if part.window else "base"


KIND = StatementKind(
    statement=CreateAggregate,
    starts=STARTS,
    apply=_apply,
    changed_names=changes_named,
    declaration_reads=lambda statement: calls_in_body(statement.sql),
    words=("TABLE", "INITIALIZE", "ITERATE", "TERMINATE", "EXPIRE", "RETURN"),
)
#: Python code runs on the executors, so an administrator is needed. The parser of CREATE AGGREGATE parses this, too.
PYTHON_KIND = StatementKind(
    statement=CreatePythonAggregate,
    apply=_apply,
    changed_names=changes_named,
    declaration_reads=lambda _: [],
    role="administrator",
    deploys_code=True,
)
