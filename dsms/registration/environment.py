"""What registration asks of the outside world, and `apply`: one statement after another, each by its handler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import singledispatch
from typing import Protocol

from dsms.model import logical
from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.objects import Object, Query, Source, kind_of
from dsms.model.statement_result import StatementResult
from operators.core.errors import UserError


class Environment(Protocol):
    """What registration must know of, and do in, the outside world."""

    def busy(self) -> Mapping[str, float]:
        """The fragments that queries are dealt out to, in the order of their names, and how busy each was measured to
        be: seconds a second, 0 where nothing is known."""
        ...

    def source_topic(self, name: str, topic: str, partitions: int | None) -> dict[int, int]:
        """The first offset of each partition; makes the topic when `partitions` is given; UserError when it is
        missing."""
        ...

    def result_topic(self, query: Query, node: logical.Node) -> Query:
        """The query with topic and schemas ready to be written."""
        ...

    def reached(self, sources: Sequence[Source]) -> int | None:
        """An instant after all that the sources hold now; None when they hold nothing."""
        ...

    def published(self, query: str) -> int | None:
        """The instant below which the results of a query (by id) are published, now that it is halted; None: nothing
        is."""
        ...

    def state_of(self, item: Object) -> str:
        """How an object fares, for SHOW."""
        ...


Applied = tuple[Catalog, StatementResult]


@singledispatch
def apply(statement: st.Statement, catalog: Catalog, environment: Environment) -> Applied:
    """The catalog after a statement, and what it answers. Raises SqlError or UserError and changes nothing."""
    raise UserError(f"{type(statement).__name__} is not supported here")


def check_free(catalog: Catalog, name: st.Name) -> None:
    """Refuses a name that is taken."""
    if (taken := catalog.get(name.text)) is not None:
        raise name.place.error(
            f'a {kind_of(taken)} named "{taken.name}" already exists', "drop it first or choose another name"
        )
