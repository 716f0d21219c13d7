"""Reads CSV and Parquet files as batches of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as parquet

from operators.core.errors import UserError

BATCH_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class CsvLayout:
    """The layout of a CSV file; `names` are the columns of a file without a header line."""

    delimiter: str = ","
    null: str = ""
    names: tuple[str, ...] | None = None


def file_batches(path: Path, form: str, layout: CsvLayout | None = None) -> Iterator[pa.Table]:
    """The rows of a file in batches of up to about 65 000. All columns of a CSV file are text; the table declares the
    types.

    Raises UserError if the file is not in this format.
    """
    if form not in FORMATS:
        raise UserError(f'unknown file format "{form}" of "{path.name}"', hint="have: " + ", ".join(FORMATS))
    try:
        yield from FORMATS[form](path, layout or CsvLayout())
    except (OSError, pa.ArrowInvalid) as error:
        raise UserError(f'cannot read "{path}" as {form}: {error}') from error


def _parquet(path: Path, _: CsvLayout) -> Iterator[pa.Table]:
    with parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(BATCH_ROWS):
            yield pa.Table.from_batches([batch])


def _csv(path: Path, layout: CsvLayout) -> Iterator[pa.Table]:
    parsing = csv.ParseOptions(delimiter=layout.delimiter, newlines_in_values=True)
    reading = csv.ReadOptions(column_names=list(layout.names) if layout.names else None)
    names = layout.names or _header(path, parsing)
    converting = csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()),
        null_values=[layout.null],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    with csv.open_csv(path, reading, parsing, converting) as reader:
        for batch in reader:
            yield pa.Table.from_batches([batch])


def _header(path: Path, parsing: csv.ParseOptions) -> list[str]:
    """The names in the first line."""
    with csv.open_csv(path, parse_options=parsing) as reader:
        return list(reader.schema.names)


#: The readers of files by format.
FORMATS: dict[str, Callable[[Path, CsvLayout], Iterator[pa.Table]]] = {"csv": _csv, "parquet": _parquet}
