"""The running operators with their metrics. A metric is a field of `Operator`, from which the sampler, the stream
`dsms_operators`, SHOW OPERATORS and the table in docs/api.md are derived.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec

from dsms.introspection.metrics import Column, Metric, Sample, micros, number


class Operator(msgspec.Struct, frozen=True, kw_only=True):
    """A vertex (an operator in a dataflow) of a lane. Values are sums over all targets (its parallel instances). Totals
    count from the start of the fragment on its executor; rates, selectivity, cost and load are those of the last
    seconds.
    """

    id: str
    fragment: str
    lane: str
    #: The kind of operator; "Source" reads and decodes records.
    operator: str
    stage: int
    #: The queries whose plans contain it, and the operators that feed it.
    queries: tuple[str, ...]
    inputs: tuple[str, ...] = ()
    #: The key of the vertex, which is the same in every lane and fragment with an equal vertex.
    key: str = ""

    runs: Annotated[
        int,
        Metric(lambda sample: sample.measured.runs, "", "how often the operator ran", Column("runs", 1), streamed=True),
    ] = 0
    rows_in: Annotated[
        tuple[int, ...],
        Metric(
            lambda sample: sample.measured.rows_in, "rows", "rows in, by input", Column("rows in", 2), streamed=True
        ),
    ] = ()
    rows_out: Annotated[
        int,
        Metric(lambda sample: sample.measured.rows_out, "rows", "rows out", Column("rows out", 3), streamed=True),
    ] = 0
    busy_seconds: Annotated[
        float,
        Metric(lambda sample: sample.measured.busy_ns / 1e9, "s", "time within the operator", streamed=True),
    ] = 0.0
    rows_in_per_second: Annotated[
        float,
        Metric(
            lambda sample: sample.rows_in_per_second, "rows/s", "rate of rows in", Column("rows/s", 4), streamed=True
        ),
    ] = 0.0
    rows_out_per_second: Annotated[
        float,
        Metric(lambda sample: sample.rows_out_per_second, "rows/s", "rate of rows out", streamed=True),
    ] = 0.0
    load: Annotated[
        float,
        Metric(
            lambda sample: sample.load,
            "s/s",
            "busy seconds per second, summed over all cores",
            Column("load", 7),
            streamed=True,
        ),
    ] = 0.0
    selectivity: Annotated[
        float | None,
        Metric(
            lambda sample: sample.measured.selectivity,
            "",
            "rows out per row in, of all inputs together; null where there was no input",
            Column("selectivity", 5),
            streamed=True,
        ),
    ] = None
    seconds_per_row: Annotated[
        float | None,
        Metric(
            lambda sample: sample.measured.cost,
            "s/row",
            "busy seconds per row in; null where there was no input",
            Column("µs/row", 6, micros),
            streamed=True,
        ),
    ] = None
    state_rows: Annotated[
        int,
        Metric(
            lambda sample: sample.measured.state_rows, "rows", "rows of state", Column("state rows", 8), streamed=True
        ),
    ] = 0
    state_bytes: Annotated[
        int,
        Metric(
            lambda sample: sample.measured.state_bytes,
            "bytes",
            "bytes of state, as Polars estimates them",
            Column("state bytes", 9),
            streamed=True,
        ),
    ] = 0
    bytes_in: Annotated[
        int,
        Metric(
            lambda sample: sample.measured.bytes_in,
            "bytes",
            "bytes of the records read by `Source`, estimated from a sample of a long read; 0 for other operators",
        ),
    ] = 0
    gap: Annotated[
        float | None,
        Metric(
            lambda sample: sample.measured.gap,
            "instants",
            "instants between two rows out of `Source`; null for other operators",
        ),
    ] = None
    distinct_keys: Annotated[
        tuple[float, ...],
        Metric(
            lambda sample: sample.measured.distinct_keys,
            "keys",
            "the approximate number of distinct keys on each side of a join; empty for other operators",
        ),
    ] = ()


#: The type of each field of an operator, without its metric.
_TYPES = get_type_hints(Operator)
#: The metrics by the names of their fields, in the order in which they are served.
METRICS: Mapping[str, Metric] = {
    name: metric
    for name, hint in get_type_hints(Operator, include_extras=True).items()
    if get_origin(hint) is Annotated
    for metric in get_args(hint)[1:]
    if isinstance(metric, Metric)
}
_SHOWN = sorted(
    ((name, metric.column) for name, metric in METRICS.items() if metric.column is not None),
    key=lambda shown: shown[1].rank,
)
#: The headings of the metrics that SHOW OPERATORS prints.
HEADINGS: tuple[str, ...] = tuple(column.heading for _, column in _SHOWN)


def values(sample: Sample) -> dict[str, Any]:
    """The values of all metrics of an operator, by name."""
    return {name: metric.value(sample) for name, metric in METRICS.items()}


def cells(operator: Operator) -> Iterator[object]:
    """The metrics of an operator as SHOW prints them, in the order of HEADINGS."""
    return (column.cell(getattr(operator, name)) for name, column in _SHOWN)


def stream_columns() -> Iterator[tuple[str, str]]:
    """The names of the metrics in the stream `dsms_operators`, and their types in SQL.

    >>> list(stream_columns())[:2]
    [('runs', 'BIGINT'), ('rows_in', 'BIGINT')]
    """
    fractional = (float, float | None)
    return (
        (name, "DOUBLE" if _TYPES[name] in fractional else "BIGINT")
        for name, metric in METRICS.items()
        if metric.streamed
    )


def stream_values(operator: Operator) -> Iterator[tuple[str, object]]:
    """The values of the columns in `stream_columns`, by name."""
    return ((name, number(getattr(operator, name))) for name, metric in METRICS.items() if metric.streamed)
