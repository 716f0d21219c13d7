"""A sink of the catalog: a result that the cluster keeps in another system."""

from __future__ import annotations

import msgspec

from operators.core.quoting import quoted_identifier, quoted_text


class KeptSink(msgspec.Struct, frozen=True, kw_only=True):
    """What CREATE SINK has declared. No query can read a sink, so it is not an object, and has names of its own.

    The law: `cleared` <= `restarts`. The target is emptied before the next change is written if it is less.
    """

    name: str
    #: The lower-case name of the view, query or table whose changes are written.
    result: str
    #: As it was written, with references in place of passwords.
    target: str
    #: The name of the result when the sink was created, by which the target knows it.
    known_as: str
    table: str | None = None
    #: The seconds between two writes; None: the default of the target.
    every: float | None = None
    #: Whether an Iceberg or Delta table gets all changes in place of the rows.
    changes: bool = False
    comment: str = ""
    #: How often ALTER SINK … RESTART asked for an empty target, and for how many of these it was emptied.
    restarts: int = 0
    cleared: int = 0
    #: The first version of the catalog with this sink, which tells it from a dropped sink of the same name.
    created: int = 0


def create_sink_sql(sink: KeptSink, result: str) -> str:
    """The statements that create a sink of the result with this name.

    >>> create_sink_sql(KeptSink(name="s", result="warm", target="/lake/hot", known_as="hot", every=60.0), "warm")
    'CREATE SINK "s" FROM "warm" INTO \\'/lake/hot\\' WITH (every = 60)'
    """
    options = {
        "table": None if sink.table is None else quoted_text(sink.table),
        "every": None if sink.every is None else f"{sink.every:.12g}",
        "changes": "true" if sink.changes else None,
    }
    listed = ", ".join(f"{name} = {value}" for name, value in options.items() if value is not None)
    name = quoted_identifier(sink.name)
    created = f"CREATE SINK {name} FROM {quoted_identifier(result)} INTO {quoted_text(sink.target)}"
    created += f" WITH ({listed})" if listed else ""
    return f"{created};\nCOMMENT ON SINK {name} IS {quoted_text(sink.comment)}" if sink.comment else created
