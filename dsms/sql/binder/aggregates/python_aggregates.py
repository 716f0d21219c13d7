"""Binds aggregates written in Python: turns statements into definitions, without running their code."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from dsms.model import statements as st
from dsms.sql.binder.aggregates.aggregate_bodies import parameter_types, result_type
from dsms.sql.binder.scalars.python_functions import limits_of, package_from
from dsms.sql.parser.aggregates import CreatePythonAggregate
from operators.python import Package, PythonClass
from operators.python.child import MODULE, sources_of
from operators.python.registered import registered
from operators.user_aggregates.definition import Definition, python_definition

METHODS: Final = ("initialise", "iterate", "terminate", "expire", "iterate_arrays", "expire_arrays")
_HINT: Final = "the class needs the method iterate(self, …); initialise, terminate and expire are optional"


def bind_python_aggregate(declaration: CreatePythonAggregate, arguments: Sequence[pa.DataType] | None) -> Definition:
    """The definition for arguments of these types; None means the declared types. Raises SqlError or UserError."""
    parameters = parameter_types(declaration, arguments)
    package = package_from(declaration.code, declaration.name)
    methods = _checked(methods_of(package, declaration.code.handler, declaration.name), declaration.name)
    code, result = declaration.code, result_type(declaration, parameters)
    made = PythonClass(
        declaration.name.text.lower(), parameters, result, code.handler, package, methods, limits_of(code)
    )
    return python_definition(made)


def _checked(methods: frozenset[str], name: st.Name) -> frozenset[str]:
    if "initialize" in methods:
        raise name.place.error(
            f'the class of aggregate "{name.text}" has "initialize"', 'rename the method to "initialise"'
        )
    if "iterate" not in methods:
        raise name.place.error(f'the class of aggregate "{name.text}" has no "iterate"', _HINT)
    return methods & frozenset(METHODS)


def methods_of(package: Package, handler: str, name: st.Name) -> frozenset[str]:
    """The methods of the class that a handler names, as the source defines them: in the class, or in its bases in the
    same module. Raises SqlError if the source has no such class."""
    if package.registered:
        return frozenset(known for known, _ in inspect.getmembers(registered(package.hash)))
    module, _, wanted = handler.rpartition(":")
    try:
        text = sources_of(package.source).get(module or MODULE)
        tree = None if text is None else ast.parse(text)
    except (SyntaxError, UnicodeDecodeError) as error:
        raise name.place.error(f'the source of aggregate "{name.text}" is not valid Python: {error}') from error
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)} if tree is not None else {}
    if wanted not in classes:
        have = f"have: {', '.join(classes)}" if classes else ""
        raise name.place.error(f'the source of aggregate "{name.text}" has no class "{handler}"', have)
    return frozenset(_methods(wanted, classes))


def _methods(name: str, classes: dict[str, ast.ClassDef]) -> Iterator[str]:
    """The names of the methods of a class and of its bases. A class that inherits from itself is not reported here:
    Python does that."""
    pending, seen = [name], set[str]()
    while pending:
        found = pending.pop()
        if found in seen or found not in classes:
            continue
        seen.add(found)
        yield from (node.name for node in classes[found].body if isinstance(node, ast.FunctionDef))
        pending += [base.id for base in classes[found].bases if isinstance(base, ast.Name)]
