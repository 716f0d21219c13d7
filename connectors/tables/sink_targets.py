"""Opens sinks by their targets."""

from __future__ import annotations

from pathlib import Path

from connectors.tables.sink import Sink, SinkResult
from connectors.tables.sink_content import Content
from operators.core.errors import UserError

ICEBERG, DELTA = "iceberg:", "delta:"
#: The namespace of Iceberg tables that are named without one.
NAMESPACE = "dsms"


def is_lake(target: str) -> bool:
    """Whether a target is an Iceberg or Delta table, each of whose commits writes several files.

    >>> [is_lake(target) for target in ("delta:./hot", "iceberg://prod", "./delta")]
    [True, True, False]
    """
    return target.startswith((ICEBERG, DELTA))


def check_options(target: str, table: str | None, *, changes: bool) -> None:
    """Raises UserError for options that a target does not have.

    >>> check_options("/files", "rooms", changes=False)
    Traceback (most recent call last):
    operators.core.errors.UserError: the option "table" is only for databases and Iceberg; leave it out
    """
    database = not is_lake(target) and "://" in target
    if table is not None and not (database or target.startswith(ICEBERG)):
        raise UserError('the option "table" is only for databases and Iceberg', hint="leave it out")
    if changes and database:
        raise UserError("databases get the rows of a result, not its changes", hint='leave the option "changes" out')


def open_sink(target: str, result: SinkResult, table: str | None = None, *, changes: bool = False) -> Sink:
    """The sink of a target: `iceberg:DIRECTORY`, `iceberg://CATALOG`, `delta:DIRECTORY_OR_URL`, the URL of a database,
    or a directory for Parquet files. With `changes`, an Iceberg or Delta table gets all changes instead of the rows.
    Libraries are imported here: they are slow to import, and few processes need them.
    """
    check_options(target, table, changes=changes)
    if target.startswith(ICEBERG):
        return _iceberg(target.removeprefix(ICEBERG), result, table, changes=changes)
    if target.startswith(DELTA):
        return _delta(target.removeprefix(DELTA), result, changes=changes)
    if "://" in target:
        from connectors.tables.sink_database import DatabaseSink

        return DatabaseSink(target, table or result.name, result)
    from connectors.tables.sink_files import ParquetSink

    return ParquetSink(Path(target), result.name)


def _iceberg(place: str, result: SinkResult, table: str | None, *, changes: bool) -> Sink:
    content = Content(result, changes=changes)
    try:
        from connectors.tables.sink_iceberg import IcebergSink, iceberg_catalog
    except ModuleNotFoundError as error:
        raise _missing("iceberg", error) from error
    full = table if table and "." in table else f"{NAMESPACE}.{table or result.name}"
    return IcebergSink(iceberg_catalog(place), full, content)


def _delta(url: str, result: SinkResult, *, changes: bool) -> Sink:
    content = Content(result, changes=changes)
    try:
        from connectors.tables.sink_delta import DeltaSink
    except ModuleNotFoundError as error:
        raise _missing("delta", error) from error
    return DeltaSink(url, content)


def _missing(extra: str, error: ModuleNotFoundError) -> UserError:
    return UserError(f'the package "{error.name}" is not installed', hint=f'pip install "dsms[{extra}]"')
