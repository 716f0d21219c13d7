"""The relations of PostgreSQL's catalog, `pg_catalog` and `information_schema`, with the columns of version 15."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any, Final

import pyarrow as pa

_LINES: Final = re.compile(r"^(\w+)\.(\w+): ([^:]*)$", re.MULTILINE)
_TYPES: Final[dict[str, pa.DataType]] = {
    "": pa.string(), "#": pa.int64(), "%": pa.float64(), "@": pa.timestamp("us", "UTC"), "?": pa.bool_(),
    "[]": pa.list_(pa.string()), "#[]": pa.list_(pa.int64()),
}  # fmt: skip
#: The values of columns that a row does not name, by suffix.
_DEFAULTS: Final = {"#": 0, "%": 0.0, "?": False}


def _read() -> dict[str, dict[str, str]]:
    """The columns of each relation by schema and name; `catalog_columns.txt` describes the suffixes of the columns."""
    found: dict[str, dict[str, str]] = {"pg_catalog": {}, "information_schema": {}}
    text = files(__package__).joinpath("catalog_columns.txt").read_text()
    for schema, name, columns in _LINES.findall(text.replace("\n  ", " ")):
        found[schema][name] = columns.strip()
    return found


SCHEMAS: Final = _read()
PG_CATALOG: Final = SCHEMAS["pg_catalog"]


def schema_of(columns: str) -> pa.Schema:
    """The columns with their types.

    >>> schema_of("oid# spcname spcacl[]").names
    ['oid', 'spcname', 'spcacl']
    """
    return pa.schema([(name, _TYPES[suffix]) for name, suffix in map(_parts, columns.split())])


def relation(columns: str, rows: Iterable[Mapping[str, object]]) -> pa.Table:
    """The rows as a table with the columns. Of what a row does not name, numbers are 0, Booleans FALSE, others NULL.

    >>> relation("oid# spcname spcacl[]", [{"oid": 7}]).to_pylist()
    [{'oid': 7, 'spcname': None, 'spcacl': None}]
    """
    listed = list(rows)
    return pa.table({name: _column(name, suffix, listed) for name, suffix in map(_parts, columns.split())})


def _parts(column: str) -> tuple[str, str]:
    name = column.rstrip("#%@?[]")
    return name, column.removeprefix(name)


def _column(name: str, suffix: str, rows: list[Mapping[str, object]]) -> pa.Array[Any]:
    default = _DEFAULTS.get(suffix)
    return pa.array([row.get(name, default) for row in rows], _TYPES[suffix])
