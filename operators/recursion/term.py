"""Terms: what derives rows of a recursive relation, from given relations and from recursive ones.

A term is linear in each place where it reads a relation, so a change of one of them is followed upwards from that
place. Where two terms are joined, both sides are kept, sorted by the keys of the join.
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
    """The pairs of rows of two terms with disjoint columns whose keys are equal and not NULL; without keys all pairs.
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
    """A term whose rows are rows of the relation `head`, with the columns of it."""

    head: int
    term: Term


@dataclass(frozen=True, slots=True)
class Meeting:
    """One side of a join: `own` is the trace that keeps it, `other` that of the side which it meets, both by number."""

    own: int
    other: int
    own_keys: tuple[str, ...]
    other_keys: tuple[str, ...]
    nulls_equal: bool


#: What happens to a change on its way up.
Stage = Selected | Projected | Meeting


@dataclass(frozen=True, slots=True)
class Way:
    """The way from one place where a rule reads a relation up to its head."""

    leaf: Leaf
    stages: tuple[Stage, ...]
    head: int


def ways(rules: tuple[Rule, ...]) -> tuple[Way, ...]:
    """The ways of all rules; the two sides of a join have two numbers of traces that follow each other.

    >>> pair = Paired(Recurred(0), Given(1), ("b",), ("c",))
    >>> [(way.leaf, way.stages[0].own) for way in ways((Rule(0, Given(0)), Rule(0, pair))) if way.stages]
    [(Recurred(number=0), 0), (Given(number=1), 1)]
    """
    found: list[Way] = []
    joins = 0
    for rule in rules:
        below, count = _climbed(rule.term, joins)
        found += [Way(leaf, stages, rule.head) for leaf, stages in below]
        joins += count
    return tuple(found)


def kept_keys(rules: tuple[Rule, ...]) -> Iterator[tuple[str, ...]]:
    """The keys by which each side of each join is kept, in the order of the numbers of traces."""
    for rule in rules:
        for pair in _pairs(rule.term):
            yield pair.left_keys
            yield pair.right_keys


def _climbed(term: Term, first: int) -> tuple[list[tuple[Leaf, tuple[Stage, ...]]], int]:
    """The leaves of a term, each with the stages above it, and how many joins there are; `first` is the number of the
    next join."""
    match term:
        case Given() | Recurred():
            return [(term, ())], 0
        case Paired():
            return _climbed_pair(term, first)
        case _:
            below, count = _climbed(term.term, first)
            return [(leaf, (*stages, term)) for leaf, stages in below], count


def _climbed_pair(pair: Paired, first: int) -> tuple[list[tuple[Leaf, tuple[Stage, ...]]], int]:
    left, count = _climbed(pair.left, first + 1)
    right, more = _climbed(pair.right, first + 1 + count)
    at = 2 * first
    from_left = Meeting(at, at + 1, pair.left_keys, pair.right_keys, pair.nulls_equal)
    from_right = Meeting(at + 1, at, pair.right_keys, pair.left_keys, pair.nulls_equal)
    both = [
        *((leaf, (*stages, from_left)) for leaf, stages in left),
        *((leaf, (*stages, from_right)) for leaf, stages in right),
    ]
    return both, 1 + count + more


def _pairs(term: Term) -> Iterator[Paired]:
    """The joins of a term in the order of their numbers: a join before those below it, the left ones first."""
    match term:
        case Paired():
            yield term
            yield from _pairs(term.left)
            yield from _pairs(term.right)
        case Selected() | Projected():
            yield from _pairs(term.term)
