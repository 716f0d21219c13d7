"""Operators whose state forgets what lies below how far their columns have come."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from dsms.plan.builder import Builder, Port
from dsms.plan.lows import Low, Lows
from operators.forget import Forget, Sweep
from operators.lowest import LOW, Lowest, Term

#: Of a trace, by number, a column, and how far what asks for it has come.
Bound = tuple[int, str, frozenset[Low]]
_SCHEMA = pa.schema([pa.field(LOW, pa.int64(), nullable=False)])


def forgetting(
    operator: Any, ports: Sequence[Port], bounds: Iterable[Bound], builder: Builder
) -> tuple[Any, Sequence[Port]]:
    """The operator with its inputs; where there are bounds, with those by which its state forgets."""
    inputs: dict[frozenset[Low], int] = {}
    sweeps = tuple(Sweep(trace, name, inputs.setdefault(low, len(ports) + len(inputs))) for trace, name, low in bounds)
    if not sweeps:
        return operator, ports
    leaves = builder.leaves(ports)
    return Forget(operator, sweeps), [*ports, *(_lowest(low, leaves, builder) for low in inputs)]


def by_key(operator: Any, keys: Iterable[str], lows: Lows) -> list[Bound]:
    """The bounds of an operator that looks its state up by keys that are in all of it."""
    traces = [at for at, trace in enumerate(operator.traces()) if trace.arrangement == "key"]
    return [(at, name, lows[name]) for at in traces for name in keys if name in lows]


def _lowest(low: frozenset[Low], leaves: frozenset[int], builder: Builder) -> Port:
    """How far columns have come, on every target."""
    ordered = [(builder.sources[one.source], one) for one in sorted(low)]
    marks = [replace(builder.marks(source), via="all") for source, _ in ordered]
    terms = tuple(Term(one.column, source.partitions, one.offset) for source, one in ordered)
    return builder.add(Lowest(terms), builder.release(marks, leaves=leaves), _SCHEMA)
