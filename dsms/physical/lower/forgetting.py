"""Operators whose state forgets what no element to come can ask for: what lies below how far columns have come, and
what does not live any more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from dsms.physical.builder import Builder, Port
from dsms.physical.column_bounds import Bounds, Life, Low
from operators.constraints.forget import Forget, Outlived, Sweep
from operators.constraints.living_values import VALUE, Living
from operators.constraints.lowest_values import LOW, Lowest, Term
from operators.expressions import Column
from operators.relational.project import Project

#: How far something has come, or what lives.
What = frozenset[Low] | Life
#: Of a trace, by number, a column, and what is known of that which asks for it.
Bound = tuple[int, str, What]
_SCHEMA = pa.schema([pa.field(LOW, pa.int64(), nullable=False)])


def forgetting(
    operator: Any, ports: Sequence[Port], bounds: Iterable[Bound], builder: Builder
) -> tuple[Any, Sequence[Port]]:
    """The operator with its inputs; where there are bounds, with those by which its state forgets."""
    inputs: dict[Port, int] = {}
    sweeps: list[Sweep | Outlived] = []
    leaves = builder.leaves(ports)
    together = frozenset[tuple[str, ...]]().union(*(port.partitioned for port in ports))
    for trace, name, what in bounds:
        if isinstance(what, Life):
            told = _living(what, leaves, builder, here=(name,) in together)
            sweeps.append(Outlived(trace, name, inputs.setdefault(told, len(ports) + len(inputs))))
        else:
            told = _lowest(what, leaves, builder)
            sweeps.append(Sweep(trace, name, inputs.setdefault(told, len(ports) + len(inputs))))
    return (Forget(operator, tuple(sweeps)), [*ports, *inputs]) if sweeps else (operator, ports)


def by_key(operator: Any, keys: Iterable[str], known: Bounds) -> list[Bound]:
    """The bounds of an operator that looks its state up by keys that are in all of it."""
    traces = [at for at, trace in enumerate(operator.traces()) if trace.arrangement == "key"]
    return [(at, name, what) for at in traces for name in keys for what in asked(name, known)]


def asked(name: str, known: Bounds) -> list[What]:
    """What is known of a column of elements that ask for rows with the same value in it, which were shown where its own
    values are."""
    ordered: list[What] = [known.lows[name]] if name in known.lows else []
    lives = known.lives.get(name, frozenset())
    return ordered if (life := one_life(lives)) is None else [*ordered, life]


def one_life(lives: Iterable[Life]) -> Life | None:
    """The longest of lives of one column; None where they are of several: a value is over only where it was shown."""
    found = sorted(lives)
    same = len({(one.source, one.column) for one in found}) == 1
    return max(found, key=lambda one: one.within) if same else None


def _lowest(low: frozenset[Low], leaves: frozenset[int], builder: Builder) -> Port:
    """How far columns have come, on every target."""
    ordered = [(builder.sources[one.source], one) for one in sorted(low)]
    marks = [replace(builder.marks(source), via="all") for source, _ in ordered]
    terms = tuple(Term(one.column, source.partitions, one.offset) for source, one in ordered)
    return builder.add(Lowest(terms), builder.release(marks, leaves=leaves), _SCHEMA)


def _living(life: Life, leaves: frozenset[int], builder: Builder, *, here: bool) -> Port:
    """What lives of a column: on every target, or of the values that are `here` alone."""
    clustered = builder.clustered[life.source, life.column]
    type_ = clustered.schema.field(life.column).type
    columns = pa.schema([pa.field(VALUE, type_)])
    shown = builder.add(Project(((VALUE, Column(life.column, type_)),)), [clustered], columns)
    told = replace(shown, partitioned=clustered.renamed({life.column: VALUE}), released=clustered.released)
    routed = builder.route(told, (VALUE,)) if here else replace(told, via="all")
    return builder.add(Living(life.within), builder.release([routed], leaves=leaves), columns)
