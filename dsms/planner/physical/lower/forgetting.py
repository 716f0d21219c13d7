"""Makes operators drop ("forget") state that no later element can look up: values below the lower bound of an ordered
column, and values of a clustered column whose life is over.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from dsms.planner.physical.builder import Builder, Port
from dsms.planner.physical.column_bounds import ColumnBounds, Life, LowerBound
from operators.constraints.forget import Forget, Outlived, Sweep
from operators.constraints.living_values import VALUE, Living
from operators.constraints.lowest_values import LOWER_BOUND, Lowest, Term
from operators.expressions import Column
from operators.relational.project import Project

#: Limits the values that later elements look up: lower bounds, or the life of values.
Limit = frozenset[LowerBound] | Life
#: The number of a trace, one of its columns, and a limit of the values by which this column is looked up.
Limited = tuple[int, str, Limit]
_SCHEMA = pa.schema([pa.field(LOWER_BOUND, pa.int64(), nullable=False)])


def forgetting(
    operator: Any, ports: Sequence[Port], limited: Iterable[Limited], builder: Builder
) -> tuple[Any, Sequence[Port]]:
    """The operator with its inputs. If columns of its traces are limited, a `Forget` wraps the operator and has the
    limits as further inputs.
    """
    limits: dict[Port, int] = {}
    sweeps: list[Sweep | Outlived] = []
    leaves = builder.leaves(ports)
    partitioned = frozenset[tuple[str, ...]]().union(*(port.partitioned for port in ports))
    for trace, name, limit in limited:
        if isinstance(limit, Life):
            port = _living_values(limit, leaves, builder, own_target=(name,) in partitioned)
            sweeps.append(Outlived(trace, name, limits.setdefault(port, len(ports) + len(limits))))
        else:
            port = _lowest_values(limit, leaves, builder)
            sweeps.append(Sweep(trace, name, limits.setdefault(port, len(ports) + len(limits))))
    return (Forget(operator, tuple(sweeps)), [*ports, *limits]) if sweeps else (operator, ports)


def limited_keys(operator: Any, keys: Iterable[str], known: ColumnBounds) -> list[Limited]:
    """The limited columns of an operator that looks up its state by `keys`: those of all its traces that are arranged
    by key.
    """
    traces = [at for at, trace in enumerate(operator.traces()) if trace.arrangement == "key"]
    return [(at, name, limit) for at in traces for name in keys for limit in limits_of(name, known)]


def limits_of(name: str, known: ColumnBounds) -> list[Limit]:
    """The limits of the values of a column in later elements."""
    ordered: list[Limit] = [known.lower[name]] if name in known.lower else []
    lives = known.lives.get(name, frozenset())
    return ordered if (life := common_life(lives)) is None else [*ordered, life]


def common_life(lives: Iterable[Life]) -> Life | None:
    """The longest of some lives, if all are in one clustered column. Otherwise None, because the life of a value ends
    only in the column in which it began.
    """
    ordered = sorted(lives)
    one_column = len({(life.source, life.column) for life in ordered}) == 1
    return max(ordered, key=lambda life: life.within) if one_column else None


def _lowest_values(lower: frozenset[LowerBound], leaves: frozenset[int], builder: Builder) -> Port:
    """The port of the least value that the lower bounds allow, on every target."""
    ordered = [(builder.sources[bound.source], bound) for bound in sorted(lower)]
    marks = [replace(builder.marks(source), via="all") for source, _ in ordered]
    terms = tuple(Term(bound.column, source.partitions, bound.offset) for source, bound in ordered)
    return builder.add(Lowest(terms), builder.release(marks, leaves=leaves), _SCHEMA)


def _living_values(life: Life, leaves: frozenset[int], builder: Builder, *, own_target: bool) -> Port:
    """The port of the living values of a clustered column. Each value is on every target or, if `own_target`, only on
    the target of its hash.
    """
    clustered = builder.clustered[life.source, life.column]
    type_ = clustered.schema.field(life.column).type
    columns = pa.schema([pa.field(VALUE, type_)])
    projected = builder.add(Project(((VALUE, Column(life.column, type_)),)), [clustered], columns)
    partitioned = clustered.renamed({life.column: VALUE})
    values = replace(projected, partitioned=partitioned, released=clustered.released)
    routed = builder.route(values, (VALUE,)) if own_target else replace(values, via="all")
    return builder.add(Living(life.within), builder.release([routed], leaves=leaves), columns)
