"""What the HTTP interface and the command line ask of the coordinator."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from dsms.model.catalog import Catalog
from dsms.model.objects import Object
from dsms.model.statement_result import StatementResult
from operators.core.errors import UserError

if TYPE_CHECKING:
    from dsms.coordinator.results.access import ResultAccess
    from dsms.coordinator.statements.control_tables import ControlTables

__all__ = ["Document", "Service", "StatementResult", "UnknownName"]

Document = dict[str, Any]


class UnknownName(UserError):
    """No object has this name; the message lists those there are.

    >>> str(UnknownName("stream", "x", ["b", "a"]))
    'stream "x" not found; have: a, b'
    """

    def __init__(self, kind: str, name: str, choices: Iterable[str] = ()) -> None:
        names = ", ".join(sorted(choices))
        super().__init__(f'{kind} "{name}" not found', hint=f"have: {names}" if names else "there is none yet")
        self.kind = kind
        self.name = name


def known(catalog: Catalog, name: str) -> Object:
    """The object of a name, or `UnknownName`."""
    found = catalog.get(name)
    if found is None:
        raise UnknownName("object", name, (one.name for one in catalog.objects.values()))
    return found


class Service(Protocol):
    """The coordinator's verbs. They may block; they raise only the errors of `operators.core.errors`.

    Documents hold "name", "kind", "sql", "state", "topic", "key" (names), "columns" ({"name", "type", "nullable"}),
    "format" ("json" or "avro") and "partitions", as far as an object has them.
    """

    def execute(self, sql: str) -> list[StatementResult]:
        """The results of the statements in order; a failing one raises, those before it stay done."""
        ...

    def settled_version(self) -> int:
        """The version of the catalog when every write so far is decided; ExternalError while it cannot be written."""
        ...

    @property
    def results(self) -> "ResultAccess":
        """Feeds of results, publishing, and what is kept of calls that are done once."""
        ...

    @property
    def control(self) -> "ControlTables":
        """What runs, as entities with attributes."""
        ...

    def sources(self) -> list[Document]:
        """All sources."""
        ...

    def streams(self) -> list[Document]:
        """All streams, views and tables."""
        ...

    def queries(self) -> list[Document]:
        """All continuous queries."""
        ...

    def describe(self, name: str) -> Document:
        """The source, stream, view, table or query of this name, or `UnknownName`."""
        ...

    def drop(self, name: str) -> StatementResult:
        """Removes one object, or raises `UnknownName`."""
        ...

    def relation(self, name: str, at: int | None) -> Document:
        """A view, query or table at a final instant, by default the last one: "name", "at" (the instant), "columns"
        (names) and "rows"; or `UnknownName`."""
        ...

    def load(self, table: str, path: Path, form: str) -> StatementResult:
        """Adds the rows of a file ("csv" or "parquet") to a table, at one instant."""
        ...

    def dead_letters(self, source: str, limit: int) -> list[Document]:
        """The latest refused records of a source with their reasons, at most `limit`."""
        ...

    def status(self) -> Document:
        """Executors, fragments, leases and lag; "kafka" is the bootstrap address for clients."""
        ...

    def readiness(self) -> dict[str, str]:
        """Empty when ready, otherwise the reason by dependency."""
        ...
