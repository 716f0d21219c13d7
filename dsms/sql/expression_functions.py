"""Function calls of SQL to calls of the catalogue: which node or name stands for which function."""

from collections.abc import Callable

import pyarrow as pa
from sqlglot import exp

from dsms.sql.position import error_at
from operators.expressions import FUNCTIONS, Expression, Literal, call

Bind = Callable[[exp.Expr], Expression]

UNREPEATABLE = {
    "now", "current_timestamp", "current_date", "current_time", "current_datetime", "localtimestamp", "localtime",
    "rand", "random", "uuid", "gen_random_uuid", "getdate", "sysdate", "today", "clock_timestamp",
    "transaction_timestamp", "statement_timestamp", "proctime", "unix_timestamp", "randn",
}  # fmt: skip

NAMES: dict[str, str] = {
    "if": "case", "iff": "case", "ifnull": "coalesce", "nvl": "coalesce", "mod": "modulo",
}  # fmt: skip


def bind_function(node: exp.Func, bind: Bind) -> Expression:
    """Returns the call that a function node stands for."""
    name = (node.name if isinstance(node, exp.Anonymous) else node.sql_name()).lower()
    if name in UNREPEATABLE:
        raise error_at(
            node,
            f'"{name}" is not supported',
            hint="results must be a function of the logs: use the column TS, the instant of the row",
        )
    arguments = [bind(argument) for argument in arguments_of(node)]
    if name in ("if", "iff"):
        arguments += [Literal(None, pa.null())] * (3 - len(arguments))
    target = NAMES.get(name, name)
    if target not in FUNCTIONS:
        raise error_at(node, f'function "{name}" not found', hint=f"have: {', '.join(sorted(FUNCTIONS))}")
    return call(target, *arguments)


def arguments_of(node: exp.Func) -> list[exp.Expr]:
    """Returns the arguments in the order of the node's own declaration."""
    arguments: list[exp.Expr] = []
    for key in [*node.arg_types]:
        value = node.args.get(key)
        if isinstance(value, list):
            arguments += value
        elif isinstance(value, exp.Expr) and not (isinstance(node, exp.Anonymous) and key == "this"):
            arguments.append(value)
    return arguments
