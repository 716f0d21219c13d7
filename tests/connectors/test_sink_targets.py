"""The target of `dsms sink` decides what is written, and wrong options are refused."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pytest

from connectors.tables.sink import Batch, SinkResult
from connectors.tables.sink_targets import open_sink
from operators.core.errors import UserError
from tests.connectors.test_sinks import KEYED, changes
from tests.support import lake_tables


@pytest.mark.parametrize(("table", "kept"), [(None, "dsms.hot"), ("rooms", "dsms.rooms"), ("shop.rooms", "shop.rooms")])
def test_an_iceberg_table_has_a_namespace(tmp_path: Path, table: str | None, kept: str) -> None:
    sink = open_sink(f"iceberg:{tmp_path}", KEYED, table)
    sink.take(changes(("+", 1, "a", 1, None)), "o1:1")
    sink.close()
    assert lake_tables.rows(lake_tables.iceberg_files(tmp_path, kept), "room") == [("a",)]


def test_each_target_has_its_content(tmp_path: Path) -> None:
    rows = changes(("+", 1, "a", 1, None), ("u", 2, "a", 2, None))
    for target, with_changes in [("delta:rows", False), ("delta:log", True), ("files", False)]:
        scheme, _, name = target.rpartition(":")
        sink = open_sink(f"{scheme}{':' if scheme else ''}{tmp_path / name}", KEYED, changes=with_changes)
        sink.take(rows, "o1:2")
        sink.close()
    log = [("+", 1, "a", 1), ("u", 2, "a", 2)]
    assert lake_tables.rows(lake_tables.delta_files(tmp_path / "rows"), "room, n") == [("a", 2)]
    assert lake_tables.rows(lake_tables.delta_files(tmp_path / "log"), "dsms_op, dsms_ts, room, n") == log
    files = [str(file) for file in (tmp_path / "files").glob("*.parquet")]
    assert lake_tables.rows(files, "dsms_op, dsms_ts, room, n") == log


def test_wrong_options_are_refused(tmp_path: Path) -> None:
    for target in (f"delta:{tmp_path / 'delta'}", str(tmp_path / "files")):
        with pytest.raises(UserError, match='"table" is only for databases and Iceberg'):
            open_sink(target, KEYED, "rooms")
    with pytest.raises(UserError, match="databases get the rows of a result"):
        open_sink("sqlite://", KEYED, changes=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("extra", "module"), [("iceberg", "sink_iceberg"), ("delta", "sink_delta")])
def test_a_missing_package_is_named_with_its_extra(
    tmp_path: Path, extra: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = {"iceberg": "pyiceberg", "delta": "deltalake"}[extra]
    for name in [each for each in sys.modules if each.split(".")[0] == package or each.endswith(module)]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UserError, match=rf'"{package}.*" is not installed; pip install "dsms\[{extra}\]"'):
        open_sink(f"{extra}:{tmp_path}", KEYED)


@pytest.mark.parametrize("scheme", ["iceberg", "delta"])
def test_names_of_columns_may_have_any_characters(tmp_path: Path, scheme: str) -> None:
    name = "Ä b.c,=`'\""
    result = SinkResult("hot", pa.schema([(name, pa.int64()), ("n", pa.int64())]), (name,))
    sink = open_sink(f"{scheme}:{tmp_path}", result)
    sink.take(Batch(["+", "+"], [1, 1], pa.table({name: [1, 2], "n": [1, 1]})), "o1:2")
    sink.take(Batch(["u", "-"], [2, 2], pa.table({name: [1, 2], "n": [5, None]})), "o1:4")
    sink.close()
    files = lake_tables.delta_files(tmp_path)
    assert lake_tables.rows(files or lake_tables.iceberg_files(tmp_path, "dsms.hot")) == [(1, 5)]
