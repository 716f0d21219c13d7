"""The table functions by SQL name."""

from __future__ import annotations

from operators.table_functions.function import TableFunction
from operators.table_functions.series import Series
from operators.table_functions.summarize import Summarize

TABLE_FUNCTIONS: dict[str, type[TableFunction]] = {
    "GENERATE_SERIES": Series,
    "SUMMARIZE": Summarize,
}
