"""SHOW SCHEMAS: the schemas in which the caller may read names, with their comments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.names import PUBLIC
from dsms.model.statement_result import StatementResult
from dsms.registration.environment import Applied, Environment
from dsms.sql.parser.cursor import Cursor
from dsms.statements.statement_kind import StatementKind

SCHEMAS: Final = "SCHEMAS"


@dataclass(frozen=True, slots=True)
class ShowSchemas(st.Statement):
    """`SHOW SCHEMAS`."""

    sql: str


def parse_schemas(cursor: Cursor) -> ShowSchemas:
    """What follows SHOW SCHEMAS: nothing."""
    cursor.end()
    return ShowSchemas(cursor.sql)


def _apply(_: ShowSchemas, catalog: Catalog, environment: Environment) -> Applied:
    rows = tuple(_rows(catalog, environment))
    return catalog, StatementResult("SHOW", f"{len(rows)} found", ("name", "objects", "comment"), rows)


def _rows(catalog: Catalog, environment: Environment) -> Iterator[tuple[str, int, str]]:
    readable = [item.name for item in catalog.objects.values() if environment.may_read(item.name)]
    schemas = [catalog.schema_of(name) for name in readable]
    for name, comment in ((PUBLIC, ""), *catalog.schemas.items()):
        if name == PUBLIC or name in schemas or environment.may_read(f"{name}.*"):
            yield name, schemas.count(name), comment


KIND = StatementKind(statement=ShowSchemas, apply=_apply, role="reader", words=(SCHEMAS,))
