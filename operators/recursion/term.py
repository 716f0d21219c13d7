"""Terms: expressions that derive rows of a recursive relation from given relations and from recursive ones.

A term is linear in each occurrence of a relation, so the changes of a term are computed from the changes of the
relations alone, except that both sides of each join are kept, sorted by the keys of the join.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from operators.expressions import Expression


@dataclass(frozen=True, slots=True)
class Given:
    """The rows of an input of the recursion, by its number."""

    number: int


@dataclass(frozen=True, slots=True)
class Recurred:
    """The rows of a recursive relation, by its number."""

    number: int


@dataclass(frozen=True, slots=True)
class Selected:
    """The rows of a term for which a predicate is TRUE."""

    term: Term
    predicate: Expression


@dataclass(frozen=True, slots=True)
class Projected:
    """Named expressions over each row of a term."""

    term: Term
    outputs: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True, slots=True)
class Paired:
    """The pairs of rows, of two terms with disjoint columns, whose keys are equal and not NULL; without keys all pairs.
    With `nulls_equal`, NULL equals NULL."""

    left: Term
    right: Term
    left_keys: tuple[str, ...]
    right_keys: tuple[str, ...]
    nulls_equal: bool = False


Leaf = Given | Recurred
Term = Leaf | Selected | Projected | Paired


@dataclass(frozen=True, slots=True)
class Rule:
    """A term that derives rows of the relation `head`; it has the columns of this relation."""

    head: int
    term: Term


def joins(term: Term) -> Iterator[Paired]:
    """Yields the joins of a term in the order of their numbers: a join before those below it, the left ones first.

    >>> below = Paired(Recurred(0), Given(1), ("b",), ("c",))
    >>> [pair.left_keys for pair in joins(Paired(below, Given(2), ("d",), ("e",)))]
    [('d',), ('b',)]
    """
    match term:
        case Paired():
            yield term
            yield from joins(term.left)
            yield from joins(term.right)
        case Selected() | Projected():
            yield from joins(term.term)


def kept_keys(rules: tuple[Rule, ...]) -> Iterator[tuple[str, ...]]:
    """Yields the keys by which each side of each join is kept, the left side before the right one."""
    for rule in rules:
        for pair in joins(rule.term):
            yield pair.left_keys
            yield pair.right_keys
