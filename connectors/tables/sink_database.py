"""The rows of a result in a table of a SQL database: each step writes its changes and the position in one
transaction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from connectors.tables.database import translated, unusable
from connectors.tables.sink import SinkResult, ops_and_rows
from operators.core.errors import UserError

POSITIONS = "dsms_positions"
#: The column of the instant in the table of a result without a key.
INSTANT = "dsms_ts"
#: The longest text in a key, which some databases have to know.
_KEY_TEXT = 255
_Values = tuple[object, ...]


class DatabaseSink:
    """Keeps a table like a result. With a key the table has its rows as of the last change; a result without a key, to
    which rows are only added, is kept with the instant of each.

    >>> sink = DatabaseSink("sqlite://", "hot", SinkResult("hot", pa.schema([("room", pa.string())]), ("room",)))
    >>> sink.take(pa.table({"op": ["+", "-", "+"], "ts": [1, 2, 2], "room": ["a", "a", "b"]}), "o3:3")
    >>> sink.rows(), sink.token()
    ([('b',)], 'o3:3')
    """

    def __init__(self, url: str, table: str, result: SinkResult) -> None:
        """Makes the table unless it is there. Errors do not contain the url, which may have a password."""
        self._result = result
        try:
            self._engine = sa.create_engine(sa.make_url(url))
        except (ArgumentError, NoSuchModuleError, ModuleNotFoundError) as error:
            raise unusable(error) from None
        self._texts = self._engine.dialect.name == "sqlite"  # it has no decimals
        metadata = sa.MetaData()
        self._names = [*result.schema.names, *([] if result.key else [INSTANT])]
        self._table = sa.Table(table, metadata, *self._columns())
        self._positions = sa.Table(
            POSITIONS,
            metadata,
            sa.Column("table_name", sa.String(_KEY_TEXT), primary_key=True),
            sa.Column("result", sa.String(_KEY_TEXT), nullable=False),
            sa.Column("token", sa.Text, nullable=False),
        )
        with self._reported():
            metadata.create_all(self._engine)
        self._token = self._read_token()

    def token(self) -> str | None:
        """The position up to which changes were taken."""
        return self._token

    def take(self, changes: pa.Table, token: str) -> None:
        """Writes the changes and the position. Raises UserError, and nothing is written, for a removal from a result
        without a key."""
        names = self._result.schema.names
        ops = ops_and_rows(changes, names)
        with self._reported(), self._engine.begin() as transaction:
            if self._result.key:
                self._replace(transaction, ops)
            else:
                self._add(transaction, ops)
            transaction.execute(sa.delete(self._positions).where(self._positions.c.table_name == self._table.name))
            position = {"table_name": self._table.name, "result": self._result.name, "token": token}
            transaction.execute(sa.insert(self._positions), [position])
        self._token = token

    def rows(self) -> list[_Values]:
        """What the table has."""
        with self._reported(), self._engine.connect() as connection:
            return [tuple(row) for row in connection.execute(sa.select(self._table))]

    def close(self) -> None:
        """Closes the connections."""
        self._engine.dispose()

    def _replace(self, transaction: sa.Connection, ops: list[tuple[str, int | None, _Values]]) -> None:
        """The last change of each key counts: its row goes, and the new one comes."""
        names, key = self._result.schema.names, self._result.key
        places = [names.index(name) for name in key]
        last = {tuple(values[at] for at in places): (op, values) for op, _, values in ops}
        gone = sa.delete(self._table).where(*(self._table.c[name] == sa.bindparam(f"k_{name}") for name in key))
        if last:
            keys = [self._given([f"k_{name}" for name in key], of_key) for of_key in last]
            transaction.execute(gone, keys)
        if fresh := [self._given(names, values) for op, values in last.values() if op != "-"]:
            transaction.execute(sa.insert(self._table), fresh)

    def _add(self, transaction: sa.Connection, ops: list[tuple[str, int | None, _Values]]) -> None:
        if any(op != "+" for op, _, _ in ops):
            raise UserError(
                f'rows leave "{self._result.name}", which has no key to find them by in a table',
                hint="select a key, such as the columns of GROUP BY; or keep the changes as Parquet files",
            )
        if rows := [self._given(self._names, (*values, ts)) for _, ts, values in ops]:
            transaction.execute(sa.insert(self._table), rows)

    def _given(self, names: list[str], values: _Values) -> dict[str, object]:
        stored = map(_stored, values) if self._texts else values
        return dict(zip(names, stored, strict=True))

    def _columns(self) -> Iterator[sa.Column[Any]]:
        for field in self._result.schema:
            in_key = field.name in self._result.key
            kind = sa.String(_KEY_TEXT) if in_key and pa.types.is_string(field.type) else _type_of(field.type)
            if self._texts and pa.types.is_decimal(field.type):
                kind = sa.Text()
            yield sa.Column(field.name, kind, primary_key=in_key, autoincrement=False)
        if not self._result.key:
            yield sa.Column(INSTANT, sa.BigInteger)

    def _read_token(self) -> str | None:
        asked = sa.select(self._positions.c.result, self._positions.c.token)
        with self._reported(), self._engine.connect() as connection:
            found = connection.execute(asked.where(self._positions.c.table_name == self._table.name)).first()
        if found is not None and found.result != self._result.name:
            raise UserError(f'table "{self._table.name}" keeps "{found.result}"', hint="choose another one by --table")
        return None if found is None else str(found.token)

    @contextmanager
    def _reported(self) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            raise translated(error, self._engine.url.password, "the change") from error


def _type_of(type_: pa.DataType) -> sa.types.TypeEngine[Any]:
    if pa.types.is_decimal(type_):
        return sa.Numeric(type_.precision, type_.scale)
    kinds: list[tuple[bool, sa.types.TypeEngine[Any]]] = [
        (pa.types.is_boolean(type_), sa.Boolean()),
        (pa.types.is_int64(type_), sa.BigInteger()),
        (pa.types.is_integer(type_), sa.Integer()),
        (pa.types.is_floating(type_), sa.Double()),
        (pa.types.is_date(type_), sa.Date()),
        (pa.types.is_timestamp(type_), sa.DateTime()),
        (pa.types.is_time(type_), sa.Time()),
        (pa.types.is_binary(type_), sa.LargeBinary()),
        (pa.types.is_nested(type_), sa.JSON()),
    ]
    return next((kind for fits, kind in kinds if fits), sa.Text())


def _stored(value: object) -> object:
    """A value as a database without decimals has it."""
    return str(value) if isinstance(value, Decimal) else value
