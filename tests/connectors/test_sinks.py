"""Results kept in databases and in files: equal to the result, at whatever change the keeper was killed."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from connectors.tables.sink import SinkResult
from connectors.tables.sink_database import INSTANT, DatabaseSink
from connectors.tables.sink_files import ParquetSink
from operators.core.errors import ExternalError, UserError

SCHEMA = pa.schema([("room", pa.string()), ("n", pa.int64()), ("mean", pa.decimal128(9, 2))])
KEYED = SinkResult("hot", SCHEMA, ("room",))
BAG = SinkResult("seen", SCHEMA)


class Killed(Exception):
    pass


def changes(*rows: tuple[str, int, str, int | None, str | None]) -> pa.Table:
    ops, instants, rooms, numbers, means = zip(*rows, strict=True)
    decimals = pa.array([mean and Decimal(mean) for mean in means], pa.decimal128(9, 2))
    return pa.table({"op": ops, "ts": instants, "room": rooms, "n": pa.array(numbers, pa.int64()), "mean": decimals})


def history(count: int) -> list[tuple[str, int, str, int | None, str | None]]:
    """Changes of rooms as a result has them: + and u only where they fit."""
    draw, there, made = random.Random(7), set[str](), []
    for at in range(count):
        room = draw.choice("abcde")
        if room in there and draw.random() < 0.4:
            made.append(("-", at, room, None, None))
            there.remove(room)
        else:
            made.append(("u" if room in there else "+", at, room, at, f"{at}.25"))
            there.add(room)
    return made


def relation(rows: list[tuple[str, int, str, int | None, str | None]]) -> list[tuple[object, ...]]:
    last = {room: (op, number, mean) for op, _, room, number, mean in rows}
    return sorted((room, number, mean) for room, (op, number, mean) in last.items() if op != "-")


def url(directory: Path) -> str:
    return f"sqlite:///{directory / 'kept.db'}"


@pytest.mark.parametrize("step", [1, 3, 40])
def test_a_table_is_the_result_after_each_step(tmp_path: Path, step: int) -> None:
    rows = history(40)
    sink = DatabaseSink(url(tmp_path), "kept", KEYED)
    assert sink.token() is None
    for start in range(0, len(rows), step):
        sink.take(changes(*rows[start : start + step]), f"o1:{start + step}")
        assert sorted(sink.rows()) == relation(rows[: start + step])
    sink.close()


def test_what_a_killed_one_had_taken_is_not_taken_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed at each step, after it has written and before it has committed."""
    rows = history(12)
    for at in range(len(rows)):
        sink = DatabaseSink(url(tmp_path), "kept", KEYED)
        taken = int(sink.token() or 0)
        assert (taken, sorted(sink.rows())) == (at, relation(rows[:at]))
        with monkeypatch.context() as patched:
            patched.setattr("sqlalchemy.insert", _killed_at(sink))
            with pytest.raises(Killed):
                sink.take(changes(rows[at]), str(at + 1))
        sink.close()
        sink = DatabaseSink(url(tmp_path), "kept", KEYED)
        sink.take(changes(rows[at]), str(at + 1))
        sink.close()


def _killed_at(sink: DatabaseSink):
    from sqlalchemy.sql.expression import insert

    def made(table):
        if table.name == "dsms_positions":
            raise Killed
        return insert(table)

    return made


def test_a_result_without_a_key_is_kept_with_its_instants(tmp_path: Path) -> None:
    sink = DatabaseSink(url(tmp_path), "kept", BAG)
    sink.take(changes(("+", 3, "a", 1, "0.50"), ("+", 3, "a", 1, "0.50")), "o1:2")
    assert sink.rows() == [("a", 1, "0.50", 3)] * 2
    with pytest.raises(UserError, match='rows leave "seen"'):
        sink.take(changes(("+", 4, "b", 2, None), ("-", 4, "a", 1, "0.50")), "o1:4")
    assert (sink.token(), len(sink.rows())) == ("o1:2", 2)
    assert INSTANT == "dsms_ts"
    sink.close()


def test_every_type_has_a_column(tmp_path: Path) -> None:
    row = {
        "b": True, "i": 3, "l": 2**40, "d": 0.5, "e": Decimal("1.50"), "s": "x", "y": b"\xff",
        "a": datetime(2026, 1, 2, tzinfo=UTC).date(), "t": datetime(2026, 1, 2, 3, 4, 5, 6),  # noqa: DTZ001 (as in SQL)
        "j": [1, 2], "o": {"p": 1},
    }  # fmt: skip
    types = {"i": pa.int32(), "e": pa.decimal128(5, 2)}
    table = pa.table({name: pa.array([value], types.get(name)) for name, value in row.items()})
    sink = DatabaseSink(url(tmp_path), "kept", SinkResult("all", table.schema, ("i",)))
    table = table.add_column(0, "ts", pa.array([1])).add_column(0, "op", pa.array(["+"]))
    sink.take(table, "o1:1")
    assert sink.rows() == [tuple({**row, "e": "1.50"}.values())]  # sqlite has no decimals
    sink.close()


def test_a_table_keeps_one_result(tmp_path: Path) -> None:
    first = DatabaseSink(url(tmp_path), "kept", KEYED)
    first.take(changes(("+", 1, "a", 1, None)), "o1:1")
    first.close()
    with pytest.raises(UserError, match='table "kept" keeps "hot"'):
        DatabaseSink(url(tmp_path), "kept", SinkResult("cold", SCHEMA, ("room",)))
    with pytest.raises(UserError, match="cannot use the database url"):
        DatabaseSink("nothing://x:secret@y", "kept", KEYED)


def test_files_have_all_changes_in_order(tmp_path: Path) -> None:
    rows = history(20)
    for start in range(0, 20, 4):
        sink = ParquetSink(tmp_path / "hot", "hot")
        assert sink.token() == (f"o1:{start}" if start else None)
        (tmp_path / "hot" / f"changes-{start // 4 + 1:012}.parquet.part").write_bytes(b"half")  # of a killed one
        sink = ParquetSink(tmp_path / "hot", "hot")
        sink.take(changes(*rows[start : start + 4]), f"o1:{start + 4}")
    found = pl.read_parquet(sorted((tmp_path / "hot").glob("*.parquet"))).rows()
    assert [(op, ts, room, n) for op, ts, room, n, _ in found] == [row[:4] for row in rows]
    assert not list((tmp_path / "hot").glob("*.part"))


def test_a_directory_keeps_one_result(tmp_path: Path) -> None:
    ParquetSink(tmp_path, "hot").take(changes(("+", 1, "a", 1, None)), "o1:1")
    with pytest.raises(UserError, match='has changes of "hot"'):
        ParquetSink(tmp_path, "cold")
    (tmp_path / "file").write_text("")
    with pytest.raises(ExternalError, match="cannot be used"):
        ParquetSink(tmp_path / "file", "hot")
