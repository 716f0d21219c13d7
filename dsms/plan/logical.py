"""The bound logical plan: frozen nodes with derived schema, key and monotonicity."""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch

import pyarrow as pa

from dsms.catalog.objects import Source
from operators.expressions import Column, Expression
from operators.tagger import TS


@dataclass(frozen=True)
class Tag:
    """The relational view ℜ(S) of a tagged stream over a source: its columns and TS. No keys means append-only."""

    source: Source
    stream: str
    keys: tuple[str, ...]


@dataclass(frozen=True)
class Filter:
    """The rows for which a predicate is TRUE."""

    input: Node
    predicate: Expression


@dataclass(frozen=True)
class Project:
    """Named expressions over each row."""

    input: Node
    outputs: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True)
class Restamp:
    """ℜ(V) of a view V with its column TS: the instant at which V last changed the row."""

    input: Node
    view: str


Node = Tag | Filter | Project | Restamp


@singledispatch
def schema(node: Node) -> pa.Schema:
    """The columns of a node's relation."""
    raise TypeError(node)


@schema.register
def _(node: Tag) -> pa.Schema:
    return node.source.schema.append(pa.field(TS, pa.int64(), nullable=False))


@schema.register
def _(node: Filter) -> pa.Schema:
    return schema(node.input)


@schema.register
def _(node: Project) -> pa.Schema:
    return pa.schema([pa.field(name, output.type, output.nullable) for name, output in node.outputs])


@schema.register
def _(node: Restamp) -> pa.Schema:
    return schema(node.input).append(pa.field(TS, pa.int64(), nullable=False))


@singledispatch
def keys(node: Node) -> tuple[str, ...]:
    """Columns that are unique in the relation at every instant; () when none are known."""
    raise TypeError(node)


@keys.register
def _(node: Tag) -> tuple[str, ...]:
    return node.keys


@keys.register(Filter)
@keys.register(Restamp)
def _(node: Filter | Restamp) -> tuple[str, ...]:
    return keys(node.input)


@keys.register
def _(node: Project) -> tuple[str, ...]:
    """A key survives a projection that keeps each of its columns, under any name."""
    renamed: dict[str, str] = {}
    for name, output in node.outputs:
        if isinstance(output, Column):
            renamed.setdefault(output.name, name)
    below = keys(node.input)
    return tuple(renamed[key] for key in below) if all(key in renamed for key in below) else ()


def visible(node: Node) -> pa.Schema:
    """The columns that `*` stands for: TS of a relational view is a pseudo-column, read only by name."""
    shown = schema(node)
    return shown.remove(shown.get_field_index(TS)) if isinstance(node, Tag | Restamp) else shown


def append_only(node: Node) -> bool:
    """Whether rows are never retracted (a monotonic relation)."""
    return not tag_of(node).keys


def tag_of(node: Node) -> Tag:
    """The tagged stream at the bottom of a plan."""
    return node if isinstance(node, Tag) else tag_of(node.input)
