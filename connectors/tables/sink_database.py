"""Keeps the rows of a result in a table of a SQL database.

Each step writes its changes and the position in one transaction.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from connectors.tables.database import translated, unusable
from connectors.tables.sink import INSTANT, Batch, Position, SinkResult, overtaken_error
from connectors.tables.sink_content import refuse_nested_keys, refuse_removals
from operators.core.errors import UserError

POSITIONS = "dsms_positions"
#: The longest text that some databases allow in a primary key.
_SHORT_TEXT = 255
_Row = tuple[Any, ...]


class DatabaseSink:
    """Keeps a table equal to a result. For a result with a key, the table has the current rows. A result without a key
    must be append-only; the table has each row with its instant.

    >>> sink = DatabaseSink("sqlite://", "hot", SinkResult("hot", pa.schema([("room", pa.string())]), ("room",)))
    >>> sink.take(Batch(["+", "-", "+"], [1, 2, 2], pa.table({"room": ["a", "a", "b"]})), "o3:3")
    >>> sink.rows(), sink.position().token
    ([('b',)], 'o3:3')
    """

    def __init__(self, url: str, table: str, result: SinkResult) -> None:
        """Creates the table if it does not exist. Errors do not contain the URL, which may have a password."""
        self._result = result
        if table.lower() == POSITIONS:
            raise UserError(f'table "{table}" is reserved for positions', hint="choose another table with --table")
        refuse_nested_keys(result)
        try:
            self._engine = sa.create_engine(sa.make_url(url), json_serializer=_json)
        except (ArgumentError, NoSuchModuleError, ModuleNotFoundError, ValueError, TypeError) as error:
            raise unusable(error) from None
        self._texts = self._engine.dialect.name == "sqlite"  # sqlite has no decimals
        metadata = sa.MetaData()
        self._table = sa.Table(table, metadata, *self._columns())
        if result.key:
            sa.Index(f"dsms_key_{table}", *(self._table.c[name] for name in result.key))
        self._positions = sa.Table(
            POSITIONS,
            metadata,
            sa.Column("table_name", sa.String(_SHORT_TEXT), primary_key=True),
            sa.Column("result", sa.String(_SHORT_TEXT), nullable=False),
            sa.Column("token", sa.Text, nullable=False),
            sa.Column("seen", sa.Double, nullable=False),
        )
        with self._reported():
            metadata.create_all(self._engine)
        self._position = self._read_position()

    def position(self) -> Position | None:
        """The position up to which changes were taken."""
        return self._position

    def take(self, changes: Batch, token: str) -> None:
        """Writes the changes and the position. Raises UserError, and writes nothing, for a removal from a result
        without a key."""
        rows = changes.values()
        with self._reported(), self._engine.begin() as transaction:
            self._advance(transaction, after := Position(token, time.time()))
            if self._result.key:
                self._replace(transaction, changes.ops, rows)
            else:
                self._add(transaction, changes, rows)
        self._position = after

    def confirm(self) -> None:
        """Records in the position that there were no further changes until now."""
        if self._position is not None:
            after = Position(self._position.token, time.time())
            with self._reported(), self._engine.begin() as transaction:
                self._advance(transaction, after)
            self._position = after

    def clear(self) -> None:
        """Deletes the rows of the table and its position. Raises UserError, and deletes nothing, if there
        are rows but no position: a sink writes both together, so another program has written the rows."""
        with self._reported(), self._engine.begin() as transaction:
            one = sa.select(sa.literal(1)).select_from(self._table).limit(1)
            if self._position is None and transaction.execute(one).first() is not None:
                raise UserError(
                    f'table "{self._table.name}" has rows that no sink has written',
                    hint="choose another table, or delete the rows yourself",
                )
            transaction.execute(sa.delete(self._table))
            transaction.execute(sa.delete(self._positions).where(self._positions.c.table_name == self._table.name))
        self._position = None

    def rows(self) -> list[_Row]:
        """The rows of the table."""
        with self._reported(), self._engine.connect() as connection:
            return [tuple(row) for row in connection.execute(sa.select(self._table))]

    def close(self) -> None:
        """Closes the connections."""
        self._engine.dispose()

    def _advance(self, transaction: sa.Connection, after: Position) -> None:
        """Advances the position. Raises UserError if the stored position is not the known one, because another sink has
        written.
        """
        known, values = self._positions.c, {"token": after.token, "seen": after.confirmed_at}
        if self._position is None:
            given = {"table_name": self._table.name, "result": self._result.name, **values}
            transaction.execute(sa.insert(self._positions), [given])  # the primary key refuses a second row
            return
        own = (known.table_name == self._table.name) & (known.token == self._position.token)
        if transaction.execute(sa.update(self._positions).where(own).values(**values)).rowcount != 1:
            raise overtaken_error(f'table "{self._table.name}"')

    def _replace(self, transaction: sa.Connection, ops: Any, rows: list[_Row]) -> None:
        """Applies the last change of each key: deletes the old row and inserts the new one."""
        names, key = self._result.schema.names, self._result.key
        places = [names.index(name) for name in key]
        last = {tuple(row[at] for at in places): (op, row) for op, row in zip(ops, rows, strict=True)}
        same = (self._table.c[name].is_not_distinct_from(sa.bindparam(f"k_{name}")) for name in key)
        if last:
            keys = [self._parameters([f"k_{name}" for name in key], of_key) for of_key in last]
            transaction.execute(sa.delete(self._table).where(*same), keys)
        if fresh := [self._parameters(names, row) for op, row in last.values() if op != "-"]:
            transaction.execute(sa.insert(self._table), fresh)

    def _add(self, transaction: sa.Connection, changes: Batch, rows: list[_Row]) -> None:
        refuse_removals(self._result, changes)
        names = [*self._result.schema.names, INSTANT]
        parameters = [self._parameters(names, (*row, at)) for row, at in zip(rows, changes.instants, strict=True)]
        if parameters:
            transaction.execute(sa.insert(self._table), parameters)

    def _parameters(self, names: list[str], row: _Row) -> dict[str, Any]:
        values = (str(value) if isinstance(value, Decimal) else value for value in row) if self._texts else row
        return dict(zip(names, values, strict=True))

    def _columns(self) -> Iterator[sa.Column[Any]]:
        """The columns of the table. It has no primary key, because key columns of a result may be NULL or texts of any
        length.
        """
        short = self._engine.dialect.name in ("mysql", "mariadb")  # their indexes need a length
        for field in self._result.schema:
            kind = _type_of(field.type)
            if self._texts and pa.types.is_decimal(field.type):
                kind = sa.Text()
            if short and field.name in self._result.key and isinstance(kind, sa.Text):
                kind = sa.String(_SHORT_TEXT)
            yield sa.Column(field.name, kind)
        if not self._result.key:
            yield sa.Column(INSTANT, sa.BigInteger)

    def _read_position(self) -> Position | None:
        known = self._positions.c
        with self._reported(), self._engine.connect() as connection:
            query = sa.select(known.result, known.token, known.seen).where(known.table_name == self._table.name)
            found = connection.execute(query).first()
        if found is None:
            return None
        if found.result != self._result.name:
            raise UserError(
                f'table "{self._table.name}" already keeps "{found.result}"', hint="choose another table with --table"
            )
        return Position(str(found.token), float(found.seen))

    @contextmanager
    def _reported(self) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            raise translated(error, self._engine.url.password, "the change") from error


def _json(value: object) -> str:
    """Arrays and structs as JSON: decimals and times as text, bytes in hexadecimal digits."""
    return json.dumps(value, default=lambda inner: inner.hex() if isinstance(inner, bytes) else str(inner))


def _type_of(type_: pa.DataType) -> sa.types.TypeEngine[Any]:
    if pa.types.is_decimal(type_):
        return sa.Numeric(type_.precision, type_.scale)
    kinds: Mapping[sa.types.TypeEngine[Any], bool] = {
        sa.Boolean(): pa.types.is_boolean(type_),
        sa.BigInteger(): pa.types.is_int64(type_),
        sa.Integer(): pa.types.is_integer(type_) and not pa.types.is_int64(type_),
        sa.Double(): pa.types.is_floating(type_),
        sa.Date(): pa.types.is_date(type_),
        sa.DateTime(): pa.types.is_timestamp(type_),
        sa.Time(): pa.types.is_time(type_),
        sa.LargeBinary(): pa.types.is_binary(type_),
        sa.JSON(): pa.types.is_nested(type_),
    }
    return next((kind for kind, fits in kinds.items() if fits), sa.Text())
