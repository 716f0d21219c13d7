"""The limits of what one statement, one schema or all queries together may ask for.

They are set in one place: `DSMS_LIMITS` (or `--limits`) of the coordinator, as `name=number` separated by spaces. An
error about a limit names it and says where it is set.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Final

from dsms.model.statements import Place
from operators.core.errors import ConfigError, UserError

#: The setting that every error about a limit names.
SETTING: Final = "DSMS_LIMITS"


@dataclass(frozen=True, kw_only=True)
class Limits:
    """All limits with their defaults. A new one is a field here and a `check` where it is known how much is asked for.

    >>> Limits(columns=2).check("columns", 3, "the view has {} columns")
    Traceback (most recent call last):
    ...
    operators.core.errors.UserError: the view has 3 columns, more than 2; the limit "columns" is set by DSMS_LIMITS
    """

    #: Characters of the text of one call, and of one statement in it.
    script_length: int = 4_000_000
    statement_length: int = 400_000
    #: Words, numbers and signs of a statement.
    statement_tokens: int = 10_000
    #: How deep parentheses, brackets, subqueries, NOT, CASE and signs are nested in a statement.
    statement_nesting: int = 50
    #: Operands of a chain such as a + b + c, each of which depends on those before it; AND and OR are no such chains.
    statement_operands: int = 64
    #: Levels of the tree of a statement: operands, parts of a set query, casts, subqueries, all within each other.
    statement_levels: int = 200
    #: Relations that one FROM joins.
    from_items: int = 50
    #: Columns of a source, a table or a result.
    columns: int = 1_000
    #: Partitions of a topic that a statement makes.
    partitions: int = 256
    #: Operators of a query, once for each place where the query reads a view; and how many lie above each other.
    query_operators: int = 2_000
    query_nesting: int = 100
    #: Windows of TUMBLE, HOP and CUMULATE that hold one row: it becomes as many rows.
    windows: int = 10_000
    #: Views and queries that are registered in all.
    queries: int = 10_000
    #: Characters of an Avro schema, how deep its types are nested, and how many there are with names written out.
    schema_length: int = 400_000
    schema_nesting: int = 50
    schema_types: int = 10_000
    #: One-time statements that run at once, and that wait for it.
    selects: int = 2
    selects_waiting: int = 8
    #: Seconds that one may take, megabytes of memory beside what it reads, and megabytes of a relation that it reads.
    select_seconds: int = 10
    select_memory_mb: int = 256
    relation_mb: int = 256
    #: Rows and megabytes of its answer.
    select_rows: int = 100_000
    select_result_mb: int = 16
    #: Calls a second of one token, its queries, and the results that it follows at once; a token may have its own.
    token_calls_per_second: int = 1_000
    token_queries: int = 1_000
    token_streams: int = 1_000
    #: Calls a second of one address that show no token that is known.
    unknown_calls_per_second: int = 200
    #: Megabytes of a call, and of a file of rows that is sent to a table.
    request_mb: int = 64
    load_mb: int = 1_024
    #: Characters of a regular expression or of a pattern of LIKE.
    pattern_length: int = 1_000

    def check(self, name: str, count: int, what: str, place: Place | None = None) -> None:
        """Raises UserError if `count` exceeds the limit of this name, with `{}` in `what` as the count; SqlError if it
        is known where."""
        limit = getattr(self, name)
        if count <= limit:
            return
        message, hint = f"{what.format(count)}, more than {limit}", f'the limit "{name}" is set by {SETTING}'
        raise place.error(message, hint) if place else UserError(message, hint=hint)


def read_limits(text: str) -> Limits:
    """The limits of a setting; those that it does not name keep their defaults. Raises ConfigError.

    >>> read_limits("columns=20 queries=5").columns, read_limits("").queries
    (20, 10000)
    """
    given: dict[str, int] = {}
    for word in text.replace(",", " ").split():
        name, _, number = word.partition("=")
        if name not in _NAMES:
            raise ConfigError(f'unknown limit "{name}" in {SETTING}', hint=f"have: {', '.join(_NAMES)}")
        if not number.isdecimal() or int(number) == 0:
            raise ConfigError(f'limit "{name}" in {SETTING} is "{number}"', hint=f"for example {name}=100")
        given[name] = int(number)
    make: Callable[..., Limits] = Limits
    return make(**given)


_NAMES: Final = tuple(field.name for field in fields(Limits))
#: For what was accepted before: the statements of a catalog stay valid when the limits become lower.
NO_LIMITS: Final = Limits(**dict.fromkeys(_NAMES, sys.maxsize))
