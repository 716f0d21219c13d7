"""Limits for statements, schemas, tokens and the number of queries.

The setting `DSMS_LIMITS` (or `--limits`) of the coordinator sets them, as `name=number` separated by spaces. An error
about a limit names the limit and this setting.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Final

from dsms.model.statements import TextLocation
from operators.core.errors import ConfigError, UserError

#: The setting that every error about a limit names.
SETTING: Final = "DSMS_LIMITS"


@dataclass(frozen=True, kw_only=True)
class Limits:
    """All limits with their defaults. A new limit needs a field here, and a call of `check` where the amount is known.

    >>> Limits(columns=2).check("columns", 3, "the view has {} columns")
    Traceback (most recent call last):
    ...
    operators.core.errors.UserError: the view has 3 columns, more than 2; the limit "columns" is set by DSMS_LIMITS
    """

    #: Characters in the text of one call, and in one statement of it.
    script_length: int = 4_000_000
    statement_length: int = 400_000
    #: Words, numbers and symbols in a statement.
    statement_tokens: int = 10_000
    #: Nesting depth of parentheses, brackets, subqueries, NOT, CASE and signs in a statement.
    statement_nesting: int = 50
    #: Operands of a chain such as a + b + c, in which each operation uses the result of the one before. Chains of AND
    #: and OR are not limited.
    statement_operands: int = 64
    #: Depth of the syntax tree of a statement: operands, parts of a set query, casts and subqueries together.
    statement_levels: int = 200
    #: Relations in one FROM.
    from_items: int = 50
    #: Columns of a source, a table or a result.
    columns: int = 1_000
    #: Partitions of a topic that a statement creates.
    partitions: int = 256
    #: Operators in the plan of a query (operators of a view count once for each reference to it), and depth of the
    #: plan.
    query_operators: int = 2_000
    query_nesting: int = 100
    #: Windows of TUMBLE, HOP and CUMULATE that contain one row: the row is copied for each of them.
    windows: int = 10_000
    #: Registered views and queries, in total.
    queries: int = 10_000
    #: Characters of an Avro schema; nesting depth and number of its types, after names are replaced by the types to
    #: which they refer.
    schema_length: int = 400_000
    schema_nesting: int = 50
    schema_types: int = 10_000
    #: One-time statements that run at the same time, and that wait to run.
    selects: int = 2
    selects_waiting: int = 8
    #: Seconds that a one-time statement may take, megabytes of memory that it may use in addition to the relations it
    #: reads, and megabytes of each such relation.
    select_seconds: int = 10
    select_memory_mb: int = 256
    relation_mb: int = 256
    #: Megabytes of results that the coordinator keeps ready for one-time statements; those not used for longest leave.
    kept_results_mb: int = 256
    #: Rows and megabytes of the answer of a one-time statement.
    select_rows: int = 100_000
    select_result_mb: int = 16
    #: For each token that has no limits of its own: calls a second, queries, and results followed at the same time.
    token_calls_per_second: int = 1_000
    token_queries: int = 1_000
    token_streams: int = 1_000
    #: Calls a second from one address without a known token.
    unknown_calls_per_second: int = 200
    #: Megabytes of the body of a call, and of a file of rows uploaded to a table.
    request_mb: int = 64
    load_mb: int = 1_024
    #: Characters of a regular expression or of a LIKE pattern.
    pattern_length: int = 1_000

    def check(self, name: str, count: int, what: str, place: TextLocation | None = None) -> None:
        """Raises UserError, or SqlError if `place` is given, if `count` exceeds the limit `name`. `what` is the
        message, with `{}` for the count.
        """
        limit = getattr(self, name)
        if count <= limit:
            return
        message, hint = f"{what.format(count)}, more than {limit}", f'the limit "{name}" is set by {SETTING}'
        raise place.error(message, hint) if place else UserError(message, hint=hint)


def read_limits(text: str) -> Limits:
    """Parses the setting; limits that it does not name keep their defaults. Raises ConfigError if it is malformed.

    >>> read_limits("columns=20 queries=5").columns, read_limits("").queries
    (20, 10000)
    """
    given: dict[str, int] = {}
    for word in text.replace(",", " ").split():
        name, _, number = word.partition("=")
        if name not in _NAMES:
            raise ConfigError(f'unknown limit "{name}" in {SETTING}', hint=f"have: {', '.join(_NAMES)}")
        if not number.isdecimal() or int(number) == 0:
            raise ConfigError(
                f'limit "{name}" in {SETTING} needs a positive whole number, not "{number}"',
                hint=f"for example {name}=100",
            )
        given[name] = int(number)
    make: Callable[..., Limits] = Limits
    return make(**given)


_NAMES: Final = tuple(field.name for field in fields(Limits))
#: For the statements of a catalog, which stay valid when limits are lowered.
NO_LIMITS: Final = Limits(**dict.fromkeys(_NAMES, sys.maxsize))
