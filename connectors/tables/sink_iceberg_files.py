"""Replaces rows of an Iceberg table by their key: the data files that have them are written again without them."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator, Mapping

import polars as pl
import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, GreaterThanOrEqual, LessThanOrEqual, Reference
from pyiceberg.expressions.literals import literal
from pyiceberg.io.pyarrow import ArrowScan, _dataframe_to_data_files, schema_to_pyarrow
from pyiceberg.manifest import DataFile, ManifestFile
from pyiceberg.table import FileScanTask, Table, Transaction
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _OverwriteFiles

from connectors.tables.sink import Batch
from connectors.tables.sink_content import key_ranges

#: Files with fewer rows are written again in each step, together with its rows, so that they do not become many.
SMALL_ROWS = 50_000


class ReplacedFiles(_OverwriteFiles):
    """A snapshot that removes and adds data files. pyiceberg's own would carry along, in all later snapshots, manifests
    that only say which files an earlier snapshot removed.
    """

    def __init__(self, table: Table, transaction: Transaction, summary: Mapping[str, str]) -> None:
        super().__init__(Operation.OVERWRITE, transaction, table.io, uuid.uuid4(), dict(summary))

    def _existing_manifests(self) -> list[ManifestFile]:
        existing: list[ManifestFile] = super()._existing_manifests()
        return [each for each in existing if each.has_added_files() or each.has_existing_files()]


def remove_rows(table: Table, transaction: Transaction, summary: Mapping[str, str]) -> None:
    """Adds a snapshot without any rows."""
    snapshot = ReplacedFiles(table, transaction, summary)
    for task in table.scan().plan_files():
        snapshot.delete_data_file(task.file)
    snapshot.commit()


def replace_rows(
    table: Table, transaction: Transaction, last: Batch, key: tuple[str, ...], summary: Mapping[str, str]
) -> None:
    """Adds a snapshot in which the rows of `last`, one change for each key, replace the rows with the same keys. Only
    files whose statistics allow one of the keys are read, one at a time.
    """
    snapshot, keys = ReplacedFiles(table, transaction, summary), pl.DataFrame(last.rows.select(list(key)))
    files = _writer(table, snapshot.commit_uuid)
    together = [_fresh(table, last)]
    for task in _tasks(table, last.rows, key):
        rows = _read(table, task)
        kept = _without(rows, keys)
        if task.file.record_count < SMALL_ROWS:
            together.append(kept)
        elif len(kept) == len(rows):
            continue
        else:
            _append(snapshot, files(kept))
        snapshot.delete_data_file(task.file)
    _append(snapshot, files(pa.concat_tables(together)))
    snapshot.commit()


def _append(snapshot: ReplacedFiles, files: Iterator[DataFile]) -> None:
    for file in files:
        snapshot.append_data_file(file)


def _writer(table: Table, commit: uuid.UUID) -> Callable[[pa.Table], Iterator[DataFile]]:
    """Writes rows as data files of one commit, whose names are different."""
    counter = itertools.count()

    def write(rows: pa.Table) -> Iterator[DataFile]:
        if len(rows):
            yield from _dataframe_to_data_files(table.metadata, rows, table.io, commit, counter)

    return write


def _tasks(table: Table, rows: pa.Table, key: tuple[str, ...]) -> Iterator[FileScanTask]:
    """The files that may have one of the keys, and the small ones."""
    having = {task.file.file_path for task in table.scan(row_filter=_range(rows, key)).plan_files()}
    for task in table.scan().plan_files():
        if task.file.record_count < SMALL_ROWS or task.file.file_path in having:
            yield task


def _range(rows: pa.Table, key: tuple[str, ...]) -> BooleanExpression:
    """The ranges of the key columns as an expression, by which files are left out."""
    found: BooleanExpression = AlwaysTrue()
    for name, (least, most) in key_ranges(rows, key).items():
        at_least = GreaterThanOrEqual(term=Reference(name), value=literal(least))
        found = And(found, And(at_least, LessThanOrEqual(term=Reference(name), value=literal(most))))
    return found


def _read(table: Table, task: FileScanTask) -> pa.Table:
    """The rows of a file that were not deleted by other engines."""
    return ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue()).to_table([task]).cast(_arrow(table))


def _fresh(table: Table, last: Batch) -> pa.Table:
    return last.rows.filter(pa.array([op != "-" for op in last.ops])).cast(_arrow(table))


def _arrow(table: Table) -> pa.Schema:
    return schema_to_pyarrow(table.schema(), include_field_ids=False)


def _without(rows: pa.Table, keys: pl.DataFrame) -> pa.Table:
    """The rows that have other keys than these. NULL equals NULL, and NaN equals NaN.

    >>> rows = pa.table({"k": [1, None, 2], "n": [1, 2, 3]})
    >>> _without(rows, pl.DataFrame({"k": [None, 2]})).to_pylist()
    [{'k': 1, 'n': 1}]
    """
    own = pl.DataFrame(rows.select(keys.columns)).cast(keys.schema).with_row_index(_PLACE)
    return rows.take(own.join(keys, on=keys.columns, how="anti", nulls_equal=True).get_column(_PLACE).sort().to_arrow())


_PLACE = "dsms_place"
