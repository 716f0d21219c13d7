"""Keeps a result in an Iceberg table; the summary of each snapshot has the position after its changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import cast

from pyiceberg import exceptions
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    ForbiddenError,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    NotInstalledError,
    OAuthError,
    TableAlreadyExistsError,
    UnauthorizedError,
    ValidationError,
    ValidationException,
)
from pyiceberg.table import Table, Transaction
from pyiceberg.table.snapshots import ancestors_of
from pyiceberg.utils.config import Config
from sqlalchemy.exc import SQLAlchemyError

from connectors.tables.sink import Batch, Conflict, Position, PositionLost, overtaken_error, token_of
from connectors.tables.sink_content import Content, last_changes
from connectors.tables.sink_iceberg_files import remove_rows, replace_rows
from operators.core.errors import ExternalError, UserError

_TOKEN, _RESULT, _CONFIRMED = "dsms-token", "dsms-result", "dsms-confirmed"
_ATTEMPTS = 5
#: Properties of a new table. Each commit writes a file of metadata and, if rows are only added, a manifest.
_PROPERTIES = {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
    "commit.manifest-merge.enabled": "true",
}


def iceberg_catalog(place: str) -> Catalog:
    """The catalog at a place: `//NAME` is one of pyiceberg's configuration; everything else is a directory, with its
    catalog in a sqlite database.
    """
    if place.startswith("//"):
        name = place[2:]
        try:
            # the library reads its configuration when it is imported; the present one is passed over it
            return load_catalog(name, **cast("dict[str, str]", Config().get_catalog_config(name) or {}))
        except (ValueError, NotInstalledError) as error:  # the error may contain passwords of the configuration
            raise UserError(
                f'the Iceberg catalog "{name}" cannot be used: {type(error).__name__}',
                hint=f"describe it in ~/.pyiceberg.yaml or in PYICEBERG_CATALOG__{name.upper()}__URI",
            ) from None
    directory = Path(place).absolute()
    with _translated(f'the Iceberg catalog in "{directory}"'):
        directory.mkdir(parents=True, exist_ok=True)
        return SqlCatalog("dsms", uri=f"sqlite:///{directory / 'catalog.db'}", warehouse=directory.as_uri())


class IcebergSink:
    """An Iceberg table with the rows or the changes of a result.

    >>> import tempfile
    >>> import pyarrow as pa
    >>> from connectors.tables.sink import SinkResult
    >>> content = Content(SinkResult("hot", pa.schema([("room", pa.string())]), ("room",)))
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     sink = IcebergSink(iceberg_catalog(directory), "shop.hot", content)
    ...     sink.take(Batch(["+", "-", "+"], [1, 2, 2], pa.table({"room": ["a", "a", "b"]})), "o3:3")
    ...     sink.position().token
    ...     sink.close()
    'o3:3'
    """

    def __init__(self, catalog: Catalog, table: str, content: Content) -> None:
        """Creates the table, `namespace.name`, if it does not exist. Raises UserError if it has another result or other
        columns.
        """
        if "." not in table:
            raise UserError(f'"{table}" has no namespace', hint="give it as --table NAMESPACE.TABLE")
        self._catalog, self._name, self._content = catalog, table, content
        self._known: tuple[Position | None] | None = None
        with self._reported():
            self._table = self._created()
        self._check()

    def position(self) -> Position | None:
        """The position up to which changes were taken. Raises UserError if no snapshot has it any more."""
        if self._known is None:
            self._known = (self._read_position(),)
        return self._known[0]

    def take(self, changes: Batch, token: str) -> None:
        """Commits the changes and the position as one snapshot. Raises UserError, and commits nothing, for a removal
        from a result without a key.
        """
        key, summary = self._content.key, self._summary(token)
        if key:
            last = last_changes(changes, key)
            self._commit(token, lambda transaction: replace_rows(self._table, transaction, last, key, summary))
        else:
            added = self._content.added(changes)
            self._commit(token, lambda transaction: transaction.append(added, snapshot_properties=summary))

    def confirm(self) -> None:
        """Records in a property of the table that there were no further changes until now."""
        if (position := self.position()) is not None:
            confirmed = {_CONFIRMED: f"{position.token} {time.time()}"}
            self._commit(position.token, lambda transaction: transaction.set_properties(confirmed))

    def clear(self) -> None:
        """Deletes the rows of the table and its position, in one snapshot."""
        self._known = (None,)
        self._commit("", lambda transaction: remove_rows(self._table, transaction, self._summary("")))

    def close(self) -> None:
        """Closes the connections to the catalog."""
        self._catalog.close()

    def _commit(self, token: str, write: Callable[[Transaction], object]) -> None:
        """Commits a step. If another process has committed in the meantime, such as one that compacts files, this is
        repeated on the new snapshot. pyiceberg itself must not repeat it, as it would add rows without looking whether
        another sink has added them: so its retries are off in the copy of the metadata that this process has.
        """
        before = self.position()
        for _ in range(_ATTEMPTS):
            with self._reported():
                self._table.refresh()
            if token and token_of(self._read_position()) != token_of(before):
                raise overtaken_error(f'table "{self._name}"')
            self._table.metadata = self._table.metadata.model_copy(
                update={"properties": {**self._table.metadata.properties, "commit.retry.num-retries": "0"}}
            )
            try:
                with self._reported(), self._table.transaction() as transaction:
                    write(transaction)
            except Conflict:
                continue
            self._known = (Position(token, time.time()) if token else None,)
            return
        raise ExternalError(f'table "{self._name}" is changed by other processes all the time, so no commit succeeded')

    def _summary(self, token: str) -> dict[str, str]:
        return {_TOKEN: token, _RESULT: self._content.result.name}

    def _read_position(self) -> Position | None:
        """The position of the newest snapshot that has one, among the current one and those before it. So a rollback of
        the table also resets the position.
        """
        current = self._table.current_snapshot()
        for snapshot in ancestors_of(current, self._table.metadata):
            summary = snapshot.summary.additional_properties if snapshot.summary else {}
            if (token := summary.get(_TOKEN)) is not None:
                told, at = self._table.properties.get(_CONFIRMED, " 0").rsplit(" ", 1)
                seen = max(snapshot.timestamp_ms / 1000, float(at) if told == token else 0.0)
                return Position(token, seen) if token else None
        if current is not None:
            raise PositionLost(f'the position of the result in table "{self._name}" is lost: its snapshot has expired')
        return None

    def _created(self) -> Table:
        with suppress(NoSuchTableError):
            return self._catalog.load_table(self._name)
        with suppress(NamespaceAlreadyExistsError):
            self._catalog.create_namespace(self._name.rpartition(".")[0])
        properties = {**_PROPERTIES, _RESULT: self._content.result.name}
        try:
            return self._catalog.create_table(self._name, self._content.schema, properties=properties)
        except TableAlreadyExistsError:  # another sink has created it in the meantime
            return self._catalog.load_table(self._name)

    def _check(self) -> None:
        kept, wanted = self._table.properties.get(_RESULT), self._content.result.name
        if kept != wanted:
            what = f'already keeps "{kept}"' if kept else "is not one of a sink"
            raise UserError(f'table "{self._name}" {what}', hint="choose another table with --table")
        have, columns = list(self._table.schema().column_names), self._content.schema.names
        if [name for name in have if "." not in name] != [name for name in columns if "." not in name]:
            raise UserError(
                f'table "{self._name}" has the columns {", ".join(have)}, "{wanted}" has {", ".join(columns)}',
                hint="choose another table with --table",
            )

    @contextmanager
    def _reported(self) -> Iterator[None]:
        with _translated(f'the Iceberg table "{self._name}"'):
            yield


#: Errors that say that the request or the configuration is wrong.
_REFUSED = (
    BadRequestError,
    ForbiddenError,
    NotInstalledError,
    OAuthError,
    UnauthorizedError,
    ValidationError,
    ValueError,
)


#: All errors of the library, and of files: those that are not listed above say that something failed.
_FAILED: tuple[type[Exception], ...] = (
    OSError,
    *(each for each in vars(exceptions).values() if isinstance(each, type) and issubclass(each, Exception)),
)


@contextmanager
def _translated(what: str) -> Iterator[None]:
    try:
        yield
    except (CommitFailedException, ValidationException) as error:
        raise Conflict(f"{what} was changed by another process") from error
    except SQLAlchemyError as error:
        raise ExternalError(f"{what} failed: its catalog reports {type(error).__name__}") from error
    except _REFUSED as error:
        raise UserError(f"{what} cannot be written: {error}") from error
    except _FAILED as error:
        raise ExternalError(f"{what} failed: {type(error).__name__}: {error}") from error
