"""Keeps a result in a Delta table; each commit has the position after its changes.

A commit has an application transaction (`txn`) with the number of the step, which checkpoints of the log keep, and the
position with the same number in its `commitInfo`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, DeltaProtocolError, SchemaMismatchError

from connectors.tables.sink import INSTANT, OP, Batch, Conflict, Position, PositionLost, overtaken_error
from connectors.tables.sink_content import Content, key_ranges, last_changes
from operators.core.errors import ExternalError, UserError
from operators.core.quoting import quoted_identifier, quoted_text

if TYPE_CHECKING:
    import pyarrow as pa

_TOKEN, _STEP = "dsms-token", "dsms-step"
#: DataFusion makes names without quotes lower case.
_quoted = quoted_identifier
_ATTEMPTS, _LONGEST_TEXT = 5, 200
#: How many commits are searched for the position, the newest first; None is all that the log still has.
_SEARCHED = (10, 1000, None)


class DeltaSink:
    """A Delta table with the rows or the changes of a result, in a directory or an object store.

    >>> import tempfile
    >>> import pyarrow as pa
    >>> from connectors.tables.sink import SinkResult
    >>> content = Content(SinkResult("hot", pa.schema([("room", pa.string())]), ("room",)))
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     sink = DeltaSink(directory, content)
    ...     sink.take(Batch(["+", "-", "+"], [1, 2, 2], pa.table({"room": ["a", "a", "b"]})), "o3:3")
    ...     DeltaTable(directory).to_pyarrow_table().to_pylist(), DeltaSink(directory, content).position().token
    ([{'room': 'b'}], 'o3:3')
    """

    def __init__(self, url: str, content: Content) -> None:
        """Creates the table if it does not exist. Raises UserError if it has another result or other columns.
        Credentials and the endpoint of an object store come from the environment, never from the URL.
        """
        if "@" in urlsplit(url).netloc:
            raise UserError("the URL of a table must not hold credentials", hint="they come from the environment")
        self._url, self._content = url, content
        self._known: tuple[Position | None, int] | None = None
        with self._reported():
            self._table = _created(url, content)
        _check(self._table, url, content)

    def position(self) -> Position | None:
        """The position up to which changes were taken."""
        return self._state()[0]

    def take(self, changes: Batch, token: str) -> None:
        """Commits the changes and the position. Raises UserError, and commits nothing, for a removal from a result
        without a key.
        """
        self._commit(token, lambda step: self._write(changes, step))

    def confirm(self) -> None:
        """Records in an empty commit that there were no further changes until now."""
        if (position := self.position()) is not None:
            self._commit(position.token, self._write_nothing)

    def clear(self) -> None:
        """Deletes the rows of the table and its position, in one commit."""
        self._known = (None, self._step())
        self._commit("", lambda step: self._table.delete(commit_properties=step))

    def close(self) -> None:
        """Does nothing, because no resources are held."""

    def _state(self) -> tuple[Position | None, int]:
        """The position and the number of the last step, both of the loaded version of the table."""
        if self._known is None:
            with self._reported():
                self._known = self._read_position(step := self._step()), step
        return self._known

    def _commit(self, token: str, write: Callable[[CommitProperties], object]) -> None:
        """Commits the next step. If another process has committed in the meantime, such as one that compacts files,
        this is repeated on the new version, unless the position in the table is another one.
        """
        for _ in range(_ATTEMPTS):
            _, last = self._state()
            step = last + 1
            properties = CommitProperties(
                custom_metadata={_TOKEN: token, _STEP: str(step)},
                max_commit_retries=0,
                app_transactions=[Transaction(_application(self._content), step)],
            )
            try:
                with self._reported():
                    write(properties)
                    self._table.update_incremental()
                    if self._step() != step:  # a MERGE or DELETE that changes no row commits nothing
                        self._write_nothing(properties)
                        self._table.update_incremental()
            except Conflict:
                with self._reported():
                    self._table.update_incremental()
                self._known = None if token else (None, self._step())
                if self._state()[1] != last:
                    raise overtaken_error(f'"{self._url}"') from None
                continue
            self._known = (Position(token, time.time()) if token else None), step
            return
        raise ExternalError(f'"{self._url}" is changed by other processes all the time, so no commit succeeded')

    def _write(self, changes: Batch, properties: CommitProperties) -> None:
        key = self._content.key
        if not key:
            write_deltalake(self._table, self._content.added(changes), mode="append", commit_properties=properties)
            return
        source = last_changes(changes, key).table().drop_columns([INSTANT])
        columns = {_quoted(name): f"s.{_quoted(name)}" for name in self._content.result.schema.names}
        same = [f"(t.{_quoted(name)} IS NOT DISTINCT FROM s.{_quoted(name)})" for name in key]
        found = " AND ".join([*same, *_ranges(source, key)])
        merge = self._table.merge(source, found, source_alias="s", target_alias="t", commit_properties=properties)
        removed, kept = f"s.{OP} = '-'", f"s.{OP} <> '-'"
        merge = merge.when_matched_delete(removed).when_matched_update(columns)
        merge.when_not_matched_insert(columns, predicate=kept).execute()

    def _write_nothing(self, properties: CommitProperties) -> None:
        self._table.create_write_transaction([], "append", self._table.schema(), None, commit_properties=properties)

    def _step(self) -> int:
        return self._table.transaction_version(_application(self._content)) or 0

    def _read_position(self, step: int) -> Position | None:
        """The position of a step, from the commit that has it."""
        if not step:
            return None
        for limit in _SEARCHED:
            for commit in self._table.history(limit):
                if commit.get(_STEP) == str(step):
                    at = float(commit["timestamp"]) / 1000
                    return Position(str(commit[_TOKEN]), at) if commit[_TOKEN] else None
                if commit["operation"] == "RESTORE":
                    raise self._lost("the table was restored to an earlier version")
        raise self._lost("the commit with the position was removed from the log")

    def _lost(self, why: str) -> PositionLost:
        return PositionLost(f'the position of the result in "{self._url}" is lost: {why}')

    @contextmanager
    def _reported(self) -> Iterator[None]:
        with _translated(f'the Delta table "{self._url}"'):
            yield


@contextmanager
def _translated(what: str) -> Iterator[None]:
    """Raises this project's errors for those of the library, about `what`."""
    try:
        yield
    except CommitFailedError as error:
        raise Conflict(f"{what} was changed by another process") from error
    except (DeltaProtocolError, SchemaMismatchError) as error:
        raise UserError(f"{what} cannot be written: {_line(error)}", hint="choose another table") from error
    except (DeltaError, OSError) as error:
        raise ExternalError(f"{what} failed: {_line(error)}") from error


def _application(content: Content) -> str:
    """The name of the sink's own transactions in the table, which other writers do not use."""
    return f"dsms/{content.result.name}"


def _line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def _created(url: str, content: Content) -> DeltaTable:
    if "://" not in url:
        Path(url).mkdir(parents=True, exist_ok=True)
    if not DeltaTable.is_deltatable(url):
        try:
            first = CommitProperties(app_transactions=[Transaction(_application(content), 0)])
            return DeltaTable.create(url, content.schema, name=content.result.name, commit_properties=first)
        except (CommitFailedError, DeltaError):
            if not DeltaTable.is_deltatable(url):  # another sink may have created it in the meantime
                raise
    return DeltaTable(url)


def _check(table: DeltaTable, url: str, content: Content) -> None:
    name = content.result.name
    if table.transaction_version(_application(content)) is None:
        raise UserError(
            f'the Delta table "{url}" was not created by a sink of "{name}"', hint="choose another directory"
        )
    have, wanted = [field.name for field in table.schema().fields], content.schema.names
    if have != wanted:
        raise UserError(
            f'the Delta table "{url}" has the columns {", ".join(have)}, "{name}" has {", ".join(wanted)}',
            hint="choose another directory",
        )


def _ranges(rows: pa.Table, key: tuple[str, ...]) -> Iterator[str]:
    """The ranges of the key columns as conditions: by these, unlike by equality, MERGE leaves out files.

    >>> import pyarrow as pa
    >>> print(*_ranges(pa.table({"room": ["a", "it's"], "n": [1, 2], "x": [0.5, 1.5]}), ("room", "n", "x")))
    (t."room" >= 'a' AND t."room" <= 'it''s') (t."n" >= 1 AND t."n" <= 2)
    """
    for name, (least, most) in key_ranges(rows, key).items():
        low, high = _literal(least), _literal(most)
        if low is not None and high is not None:
            yield f"(t.{_quoted(name)} >= {low} AND t.{_quoted(name)} <= {high})"


def _literal(value: object) -> str | None:
    """A value as a literal of DataFusion; None for types that have no plain one, and for long texts."""
    if isinstance(value, datetime):
        return f"arrow_cast('{value.isoformat()}', 'Timestamp(Microsecond, None)')"
    if isinstance(value, date):
        return f"arrow_cast('{value.isoformat()}', 'Date32')"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str) and len(value) <= _LONGEST_TEXT:
        return quoted_text(value)
    return None
