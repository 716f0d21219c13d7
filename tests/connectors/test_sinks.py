"""Results kept in databases and files equal the result topic, at whatever change the sink is killed."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
import sqlalchemy as sa

from connectors.tables.sink import Batch, SinkResult
from connectors.tables.sink_database import DatabaseSink
from connectors.tables.sink_files import ParquetSink
from dsms.sinks.following import position_of
from operators.core.errors import ExternalError, UserError

SCHEMA = pa.schema([("room", pa.string()), ("n", pa.int64()), ("mean", pa.decimal128(9, 2))])
KEYED = SinkResult("hot", SCHEMA, ("room",))
BAG = SinkResult("seen", SCHEMA)


def changes(*rows: tuple[str, int, str, int | None, str | None]) -> Batch:
    ops, instants, rooms, numbers, means = zip(*rows, strict=True)
    decimals = pa.array([mean and Decimal(mean) for mean in means], pa.decimal128(9, 2))
    return Batch(ops, instants, pa.table({"room": rooms, "n": pa.array(numbers, pa.int64()), "mean": decimals}))


def token(sink: DatabaseSink | ParquetSink) -> str | None:
    position = sink.position()
    return None if position is None else position.token


def history(count: int) -> list[tuple[str, int, str, int | None, str | None]]:
    """A valid changelog of rooms: `+` for a new room, `u` and `-` for an existing one."""
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
    assert token(sink) is None
    for start in range(0, len(rows), step):
        sink.take(changes(*rows[start : start + step]), f"o1:{start + step}")
        assert sorted(sink.rows()) == relation(rows[: start + step])
    sink.close()


def test_a_step_that_fails_has_written_nothing(tmp_path: Path) -> None:
    """Each step first fails, after it has advanced the position and before it commits."""
    rows, engine = history(12), sa.create_engine(url(tmp_path))
    for at in range(len(rows)):
        sink = DatabaseSink(url(tmp_path), "kept", KEYED)
        assert (int(token(sink) or 0), sorted(sink.rows())) == (at, relation(rows[:at]))
        for name, other in (("kept", "away"), ("away", "kept")):
            with engine.begin() as connection:
                connection.execute(sa.text(f"ALTER TABLE {name} RENAME TO {other}"))
            if other == "away":
                with pytest.raises((ExternalError, UserError), match="no such table"):
                    sink.take(changes(rows[at]), str(at + 1))
        sink.close()
        sink = DatabaseSink(url(tmp_path), "kept", KEYED)
        sink.take(changes(rows[at]), str(at + 1))
        sink.close()
    engine.dispose()


def test_keyless_result_is_stored_with_its_instants(tmp_path: Path) -> None:
    sink = DatabaseSink(url(tmp_path), "kept", BAG)
    sink.take(changes(("+", 3, "a", 1, "0.50"), ("+", 3, "a", 1, "0.50")), "o1:2")
    assert sink.rows() == [("a", 1, "0.50", 3)] * 2
    with pytest.raises(UserError, match='rows are removed from "seen"'):
        sink.take(changes(("+", 4, "b", 2, None), ("-", 4, "a", 1, "0.50")), "o1:4")
    assert (token(sink), len(sink.rows())) == ("o1:2", 2)
    sink.close()


def test_every_type_has_a_column(tmp_path: Path) -> None:
    row = {
        "b": True, "i": 3, "l": 2**40, "d": 0.5, "e": Decimal("1.50"), "s": "x", "y": b"\xff",
        "a": datetime(2026, 1, 2, tzinfo=UTC).date(), "t": datetime(2026, 1, 2, 3, 4, 5, 6),  # noqa: DTZ001 (as in SQL)
        "j": [Decimal("1.5"), None], "o": {"p": datetime(2026, 1, 2)},  # noqa: DTZ001 (as in SQL)
    }  # fmt: skip
    types = {"i": pa.int32(), "e": pa.decimal128(5, 2)}
    table = pa.table({name: pa.array([value], types.get(name)) for name, value in row.items()})
    sink = DatabaseSink(url(tmp_path), "kept", SinkResult("all", table.schema, ("i",)))
    sink.take(Batch(["+"], [1], table), "o1:1")
    stored = {"e": "1.50", "j": ["1.5", None], "o": {"p": "2026-01-02 00:00:00"}}  # sqlite has no decimals
    assert sink.rows() == [tuple({**row, **stored}.values())]
    sink.close()


def test_a_table_keeps_one_result(tmp_path: Path) -> None:
    first = DatabaseSink(url(tmp_path), "kept", KEYED)
    first.take(changes(("+", 1, "a", 1, None)), "o1:1")
    first.close()
    with pytest.raises(UserError, match='table "kept" already keeps "hot"'):
        DatabaseSink(url(tmp_path), "kept", SinkResult("cold", SCHEMA, ("room",)))
    with pytest.raises(UserError, match="cannot use the database url"):
        DatabaseSink("nothing://x:secret@y", "kept", KEYED)


def test_files_have_all_changes_in_order(tmp_path: Path) -> None:
    rows = history(20)
    for start in range(0, 20, 4):
        sink = ParquetSink(tmp_path / "hot", "hot")
        assert token(sink) == (f"o1:{start}" if start else None)
        (tmp_path / "hot" / f".changes-{start // 4 + 1:012}.parquet.0").write_bytes(b"half")  # left by a killed writer
        sink = ParquetSink(tmp_path / "hot", "hot")
        sink.take(changes(*rows[start : start + 4]), f"o1:{start + 4}")
    found = pl.read_parquet(sorted((tmp_path / "hot").glob("*.parquet"))).rows()
    assert [(op, ts, room, n) for op, ts, room, n, _ in found] == [row[:4] for row in rows]


def test_leftover_parts_are_removed_once_their_file_exists(tmp_path: Path) -> None:
    ParquetSink(tmp_path, "hot").take(changes(("+", 1, "a", 1, None)), "o1:1")
    parts = [tmp_path / f".changes-{number:012}.parquet.5f" for number in (1, 2)]
    for part in parts:
        part.write_bytes(b"PAR1")
    ParquetSink(tmp_path, "hot")
    assert [part.exists() for part in parts] == [False, True]


def test_a_directory_keeps_one_result(tmp_path: Path) -> None:
    ParquetSink(tmp_path, "hot").take(changes(("+", 1, "a", 1, None)), "o1:1")
    with pytest.raises(UserError, match='contains changes of "hot"'):
        ParquetSink(tmp_path, "cold")
    (tmp_path / "file").write_text("")
    with pytest.raises(ExternalError, match="cannot be used"):
        ParquetSink(tmp_path / "file", "hot")


def test_keys_may_be_null_and_long(tmp_path: Path) -> None:
    result = SinkResult("hot", pa.schema([("k", pa.int32()), ("t", pa.string()), ("n", pa.int64())]), ("k", "t"))
    sink = DatabaseSink(url(tmp_path), "kept", result)
    long = "x" * 1000
    rows = [("+", None, None, 1), ("+", 1, None, 2), ("+", None, long, 3), ("u", None, None, 4), ("-", 1, None, None)]
    for at, (op, *row) in enumerate(rows):
        table = pa.table(
            {
                name: pa.array([value], field.type)
                for field, name, value in zip(result.schema, result.schema.names, row, strict=True)
            }
        )
        sink.take(Batch([op], [at], table), f"o1:{at}")
    assert sorted(sink.rows(), key=str) == [(None, long, 3), (None, None, 4)]
    sink.close()


@pytest.mark.parametrize("kept", [KEYED, BAG])
def test_two_sinks_cannot_write_the_same_change(tmp_path: Path, kept: SinkResult) -> None:
    first, second = (DatabaseSink(url(tmp_path), "kept", kept) for _ in range(2))
    first.take(changes(("+", 1, "a", 1, None)), "o1:1")
    with pytest.raises((UserError, ExternalError)):
        second.take(changes(("+", 1, "a", 1, None)), "o1:1")
    second = DatabaseSink(url(tmp_path), "kept", kept)
    second.take(changes(("+", 2, "b", 2, None)), "o1:2")
    with pytest.raises(UserError, match="another process has written"):
        first.take(changes(("+", 2, "b", 2, None)), "o1:2")
    assert len(second.rows()) == 2
    files = [ParquetSink(tmp_path / "files", "hot") for _ in range(2)]
    files[0].take(changes(("+", 1, "a", 1, None)), "o1:1")
    with pytest.raises(UserError, match="another process has written"):
        files[1].take(changes(("+", 1, "a", 1, None)), "o1:1")
    assert len(list((tmp_path / "files").iterdir())) == 1


def test_sinks_can_restart_and_refuse_to_continue_after_a_long_stop(tmp_path: Path) -> None:
    for sink in (DatabaseSink(url(tmp_path), "kept", KEYED), ParquetSink(tmp_path / "hot", "hot")):
        sink.confirm()
        assert position_of(sink, keyed=True) is None
        sink.take(changes(("+", 1, "a", 1, None)), "o1:1")
        sink.confirm()
        position = sink.position()
        assert position is not None
        later = position.confirmed_at + 24 * 3600
        assert position_of(sink, keyed=True, now=later - 7200) == position_of(sink, keyed=False, now=later) == "o1:1"
        with pytest.raises(UserError, match="stopped for 24 hours"):
            position_of(sink, keyed=True, now=later)
        sink.clear()
        assert sink.position() is None
        sink.take(changes(("+", 1, "b", 1, None)), "o1:1")
        sink.close()
    assert DatabaseSink(url(tmp_path), "kept", KEYED).rows() == [("b", 1, None)]
    assert len(list((tmp_path / "hot").iterdir())) == 1


def test_rows_of_others_are_not_deleted(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    with sqlite3.connect(tmp_path / "shop.db") as others:
        others.execute("CREATE TABLE orders (id INTEGER)")
        others.execute("INSERT INTO orders VALUES (1)")
    sink = DatabaseSink(url, "orders", BAG)
    with pytest.raises(UserError, match='"orders" has rows that no sink has written'):
        sink.clear()
    assert sqlite3.connect(tmp_path / "shop.db").execute("SELECT id FROM orders").fetchall() == [(1,)]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DatabaseSink("sqlite://", "dsms_positions", KEYED), "is reserved for positions"),
        (lambda: DatabaseSink("postgresql://h:x/db", "kept", KEYED), "cannot use the database url"),
        (lambda: SinkResult("q", pa.schema([("dsms_op", pa.string())])), 'reserved name "dsms_op"'),
        (
            lambda: DatabaseSink("sqlite://", "t", SinkResult("q", pa.schema([("a", pa.list_(pa.int8()))]), ("a",))),
            "array",
        ),
    ],
)
def test_unsupported_sinks_are_refused_with_the_reason(make: Callable[[], object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        make()
