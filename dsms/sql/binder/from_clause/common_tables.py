"""Groups the common tables of WITH RECURSIVE that must be defined together because each reads the others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from sqlglot import exp


def definition_groups(ctes: Sequence[exp.CTE]) -> list[list[exp.CTE]]:
    """The tables in groups that must be defined together, each group after the groups that it reads.

    >>> from sqlglot import parse_one
    >>> text = "WITH RECURSIVE a AS (SELECT * FROM c), b AS (SELECT * FROM c), c AS (SELECT * FROM b) SELECT 1"
    >>> [[cte.alias for cte in group] for group in definition_groups(parse_one(text).args["with_"].expressions)]
    [['b', 'c'], ['a']]
    """
    read = {cte.alias.lower(): named_in(cte.this, [other.alias.lower() for other in ctes]) for cte in ctes}
    reached = {name: _reached(name, read) for name in read}
    waiting, ordered = {cte.alias.lower(): cte for cte in ctes}, list[list[exp.CTE]]()
    while waiting:
        first = next(name for name in waiting if _reads_none(name, reached, waiting.keys()))
        together = [name for name in waiting if name == first or (name in reached[first] and first in reached[name])]
        ordered.append([waiting.pop(name) for name in together])
    return ordered


def reads_itself(group: Sequence[exp.CTE]) -> bool:
    """Whether the definition of a group of tables is recursive."""
    return len(group) > 1 or bool(named_in(group[0].this, [group[0].alias.lower()]))


def named_in(query: exp.Expr, names: Collection[str]) -> set[str]:
    """Those of `names`, in lower case, that a query reads."""
    return {table.name.lower() for table in query.find_all(exp.Table)} & set(names)


def _reads_none(name: str, reached: Mapping[str, set[str]], waiting: Collection[str]) -> bool:
    """Whether every waiting table that a table reads, directly or through others, also reads that table."""
    return all(name in reached[other] for other in reached[name] & set(waiting))


def _reached(name: str, read: Mapping[str, set[str]]) -> set[str]:
    """The tables that a table reads, directly or through others; itself if it is recursive."""
    found, waiting = set[str](), [*read[name]]
    while waiting:
        if (other := waiting.pop()) not in found:
            found.add(other)
            waiting += read[other]
    return found
