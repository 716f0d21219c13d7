"""The messages between the coordinator and a process that answers one-time statements.

Messages are frames: eight bytes of length, then the content. A query is a `Request`, then each of its relations as
an Arrow stream; an answer is an `Outcome`, then its rows.
"""

from __future__ import annotations

from typing import Literal

import msgspec
import pyarrow as pa

from dsms.tables.not_finite import NotFinite


class WorkerLimits(msgspec.Struct, frozen=True):
    """How much memory a query may take in addition to what it reads, and the niceness of the process."""

    memory_mb: int
    niceness: int = 0


class InputRelation(msgspec.Struct, frozen=True):
    """A relation that a query reads: its name, the SQL types of columns that Arrow stores otherwise, its size."""

    name: str
    casts: dict[str, str]
    bytes: int


class EngineFunction(msgspec.Struct, frozen=True):
    """An expression that the engine computes for DuckDB: the name by which the query calls it, the type of its values
    in DuckDB, and the pickled names of its operands with the expression over them."""

    name: str
    type: str
    content: bytes


class Request(msgspec.Struct, frozen=True):
    """A query, the relations that follow, the format of the result, and the most rows and bytes that it may have."""

    sql: str
    relations: list[InputRelation]
    form: Literal["json", "arrow"]
    rows: int
    bytes: int
    functions: list[EngineFunction] = []


class Outcome(msgspec.Struct, frozen=True):
    """The columns, with DuckDB's names of their types, and the number of the rows that follow; or the limit that was
    exceeded (`sql`: DuckDB refuses the query). `not_finite` are the rows and columns of numbers that JSON shows as
    null."""

    columns: list[str] = []
    rows: int = 0
    failed: Literal["", "sql", "memory", "rows", "bytes"] = ""
    reason: str = ""
    types: list[str] = []
    not_finite: list[NotFinite] = []


def stream_of(table: pa.Table) -> pa.Buffer:
    """The table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()
