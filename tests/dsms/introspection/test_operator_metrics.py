"""One table describes the metrics of operators: the API, streams, SHOW and the documentation follow from it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from dsms.introspection.metrics import Sample
from dsms.introspection.operator_metrics import METRICS, Operator, values
from dsms.introspection.sample_records import COLUMNS, OPERATORS
from dsms.introspection.show_tables import row
from dsms.measurements.work import VertexMetrics, Work
from dsms.testing import LocalSession

API = Path(__file__).parents[3] / "docs" / "api.md"
IDENTITY = {"id": "0-a-1", "fragment": "0", "lane": "a", "operator": "Join", "stage": 1, "queries": ("q", "r")}
#: 40 and 20 rows in, 30 rows out; the work took 1.2 s.
MEASURED = VertexMetrics(since=0.0, at=0.0).after(1.0, 0, Work((40, 20), 30, 1_200_000_000, 7, 123_456_789))
HEADINGS = (
    "id", "operator", "queries", "runs", "rows in", "rows out", "rows/s", "selectivity", "µs/row", "load", "state rows",
    "state bytes",
)  # fmt: skip
STREAM = (
    "id VARCHAR, executor VARCHAR, fragment VARCHAR, lane VARCHAR, operator VARCHAR, stage INT, query VARCHAR, "
    "queries INT, runs BIGINT, rows_in BIGINT, rows_out BIGINT, busy_seconds DOUBLE, rows_in_per_second DOUBLE, "
    "rows_out_per_second DOUBLE, load DOUBLE, selectivity DOUBLE, seconds_per_row DOUBLE, state_rows BIGINT, "
    "state_bytes BIGINT"
)
TABLE = "| metric | unit | meaning | in SHOW OPERATORS | in `dsms_operators` |\n|---|---|---|---|---|\n"


def operator() -> Operator:
    return Operator(**IDENTITY, **values(Sample.of(MEASURED, 1.0)))


def test_an_operator_is_served_with_its_metrics_in_order() -> None:
    served = msgspec.json.decode(msgspec.json.encode(operator()))
    rates = {name: served.pop(name) for name in ("rows_in_per_second", "rows_out_per_second", "load")}
    assert list(served.items())[:16] == [
        ("id", "0-a-1"), ("fragment", "0"), ("lane", "a"), ("operator", "Join"), ("stage", 1), ("queries", ["q", "r"]),
        ("inputs", []), ("key", ""), ("runs", 1), ("rows_in", [40, 20]), ("rows_out", 30), ("busy_seconds", 1.2),
        ("selectivity", 0.5), ("seconds_per_row", 0.02), ("state_rows", 7), ("state_bytes", 123_456_789),
    ]  # fmt: skip
    assert rates == pytest.approx({"rows_in_per_second": 62.1, "rows_out_per_second": 31.0, "load": 1.24}, rel=0.01)


def test_a_metric_is_a_field_that_reports_may_lack_and_has_its_type() -> None:
    fields = {field.name: field for field in msgspec.structs.fields(Operator)}
    assert [name for name in fields if name in METRICS] == list(METRICS) and not METRICS.keys() & IDENTITY.keys()
    assert all(fields[name].default is not msgspec.NODEFAULT for name in METRICS)
    for measured in (MEASURED, VertexMetrics(0.0, 0.0)):
        sampled = values(Sample.of(measured, 1.0))
        assert {type(sampled[name]) for name in METRICS} <= {int, float, tuple, type(None)}
        read = msgspec.convert({**IDENTITY, **sampled}, Operator)
        assert [getattr(read, name) for name in METRICS] == list(sampled.values())


def test_the_stream_keeps_its_columns() -> None:
    """Other columns would change the schema of `dsms_operators`, a source that users' queries read."""
    assert COLUMNS[OPERATORS] == STREAM


def test_show_rounds_fractions_and_adds_up_inputs() -> None:
    shown = LocalSession().run("SHOW OPERATORS")[0].columns
    assert shown[: len(HEADINGS)] == HEADINGS
    cells = dict(zip(shown, row(operator()), strict=True))
    assert (cells["queries"], cells["rows in"], cells["µs/row"], cells["state bytes"]) == ("q, r", 60, 2e4, 123_456_789)
    assert cells["load"] == pytest.approx(1.24, rel=0.01) and len(repr(cells["load"])) <= len("1.234")


def test_the_bytes_of_the_records_read_are_added_up() -> None:
    read = (
        VertexMetrics(0.0, 0.0)
        .after(1.0, 0, Work((3,), 3, 9, bytes_in=300))
        .after(2.0, 1, Work((2,), 2, 9, bytes_in=45))
    )
    assert values(Sample.of(read, 3.0))["bytes_in"] == 345
    assert values(Sample.of(MEASURED, 1.0))["bytes_in"] == 0


def test_the_documentation_lists_every_metric(request: pytest.FixtureRequest) -> None:
    """`--update-golden` rewrites the table."""
    text, lines = API.read_text(), [_documented(name) for name in METRICS]
    _, table, behind = text.partition(TABLE)
    documented = behind.partition("\n\n")[0]
    if request.config.getoption("--update-golden"):
        API.write_text(text.replace(table + documented, table + "\n".join(lines)))
        return
    assert documented.split("\n") == lines


def _documented(name: str) -> str:
    metric = METRICS[name]
    heading = "" if metric.column is None else metric.column.heading
    return f"| `{name}` | {metric.unit} | {metric.meaning} | {heading} | {'yes' if metric.streamed else ''} |"
