"""Results kept in Iceberg and Delta tables, read by another engine, equal the changes that were taken."""

from __future__ import annotations

import math
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg import exceptions
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.table import Table
from sqlalchemy.exc import SQLAlchemyError

from connectors.tables import sink_iceberg_files
from connectors.tables.sink import Batch, Sink, SinkResult
from connectors.tables.sink_content import Content
from connectors.tables.sink_delta import DeltaSink
from connectors.tables.sink_iceberg import IcebergSink, iceberg_catalog
from operators.core.errors import ExternalError, UserError
from tests.connectors.test_sinks import BAG, KEYED, changes, history, relation, token
from tests.support import lake_tables

TABLE = "shop.hot"


@dataclass(frozen=True)
class Lake:
    """One of the formats: how a sink is opened, and the files of its table."""

    open: Callable[[Path, Content], Sink]
    files: Callable[[Path], list[str]]

    def rows(self, directory: Path, columns: str = "*") -> list[tuple[Any, ...]]:
        return lake_tables.rows(self.files(directory), columns)

    def kept(self, directory: Path) -> list[tuple[Any, ...]]:
        """The rows of the result of `history`."""
        return self.rows(directory, "room, n, mean::VARCHAR")


def open_iceberg(directory: Path, content: Content) -> IcebergSink:
    return IcebergSink(iceberg_catalog(str(directory)), TABLE, content)


ICEBERG = Lake(open_iceberg, lambda directory: lake_tables.iceberg_files(directory, TABLE))
DELTA = Lake(lambda directory, content: DeltaSink(str(directory), content), lake_tables.delta_files)
LAKES = {"iceberg": ICEBERG, "delta": DELTA}


@pytest.fixture(params=LAKES.values(), ids=LAKES)
def lake(request: pytest.FixtureRequest) -> Lake:
    return request.param


def table_of(directory: Path) -> Table:
    return iceberg_catalog(str(directory)).load_table(TABLE)


@pytest.mark.parametrize("small", [0, 1000])
@pytest.mark.parametrize("step", [3, 40])
def test_a_table_is_the_result_after_each_step(
    tmp_path: Path, lake: Lake, step: int, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if Iceberg's files are not small, so that only those with changed rows are written again."""
    monkeypatch.setattr(sink_iceberg_files, "SMALL_ROWS", small)
    rows = history(40)
    sink = lake.open(tmp_path, Content(KEYED))
    assert token(sink) is None
    for start in range(0, len(rows), step):
        sink.take(changes(*rows[start : start + step]), f"o1:{start + step}")
        assert lake.kept(tmp_path) == relation(rows[: start + step])
        if start % 2 == 0:  # the position is in the table
            sink.close()
            sink = lake.open(tmp_path, Content(KEYED))
            assert token(sink) == f"o1:{start + step}"
    sink.close()


def test_the_changes_are_kept_in_order_of_their_steps(tmp_path: Path, lake: Lake) -> None:
    rows = history(20)
    for start in range(0, 20, 4):
        sink = lake.open(tmp_path, Content(KEYED, changes=True))
        sink.take(changes(*rows[start : start + 4]), f"o1:{start + 4}")
        sink.close()
    found = sorted(lake.rows(tmp_path, "dsms_op, dsms_ts, room, n"), key=lambda row: row[1])
    assert found == [row[:4] for row in rows]


def test_a_result_without_key_is_stored_with_its_instants(tmp_path: Path, lake: Lake) -> None:
    sink = lake.open(tmp_path, Content(BAG))
    sink.take(changes(("+", 3, "a", 1, "0.50"), ("+", 3, "a", 1, "0.50")), "o1:2")
    with pytest.raises(UserError, match='rows are removed from "seen"'):
        sink.take(changes(("+", 4, "b", 2, None), ("-", 4, "a", 1, "0.50")), "o1:4")
    assert lake.rows(tmp_path) == [("a", 1, Decimal("0.50"), 3)] * 2
    assert token(sink) == "o1:2"
    sink.close()


KEY_SCHEMA = pa.schema([("k", pa.int16()), ("x", pa.float64()), ("Txt", pa.string()), ("n", pa.int64())])


def test_keys_may_be_null_or_nan(tmp_path: Path, lake: Lake) -> None:
    sink = lake.open(tmp_path, Content(SinkResult("hot", KEY_SCHEMA, ("k", "x", "Txt"))))
    nan, long = math.nan, "x" * 1000
    steps = [
        [("+", None, nan, None, 1), ("+", 1, nan, "q\"'", 2), ("+", None, None, long, 3), ("+", 1, 0.0, "", 4)],
        [("u", None, nan, None, 5), ("-", 1, nan, "q\"'", None)],
        [("u", None, None, long, 6), ("-", 1, 0.0, "", None), ("+", 1, 0.0, "", 7), ("-", 7, 7.0, "never", None)],
    ]
    for at, step in enumerate(steps):
        columns = list(zip(*step, strict=True))
        table = pa.table(columns[1:], schema=KEY_SCHEMA)
        sink.take(Batch(columns[0], [at] * len(step), table), f"o1:{at}")
    expected = [(1, 0.0, "", 7), (None, None, long, 6), (None, nan, None, 5)]
    assert sorted(map(str, lake.rows(tmp_path))) == sorted(map(str, expected))
    sink.close()


WINDOW_SCHEMA = pa.schema([("at", pa.timestamp("us")), ("room", pa.string()), ("x", pa.float64()), ("n", pa.int64())])
KeyValues = tuple[datetime | None, str | None, float | None]


def drawn_key(draw: random.Random, now: int) -> KeyValues:
    """A key of one of the last windows, any part of which may be NULL."""
    at = datetime(2026, 1, 1) + timedelta(minutes=now - draw.randrange(3))  # noqa: DTZ001 (as in SQL)
    key = (at, draw.choice("abc"), draw.choice([0.5, math.nan]))
    return tuple(None if draw.random() < 0.1 else part for part in key)  # type: ignore[return-value]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("small", [0, 1000])
def test_random_changes_of_windows(
    tmp_path: Path, lake: Lake, seed: int, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys with several columns, NULL and NaN among them, equal the last change of each key after each step."""
    monkeypatch.setattr(sink_iceberg_files, "SMALL_ROWS", small)
    draw, there = random.Random(seed), dict[str, tuple[KeyValues, int]]()
    sink = lake.open(tmp_path, Content(SinkResult("hot", WINDOW_SCHEMA, ("at", "room", "x"))))
    for now in range(6):
        ops, rows = list[str](), list[tuple[Any, ...]]()
        for number in range(draw.randrange(1, 20)):
            key = drawn_key(draw, now)
            removed = str(key) in there and draw.random() < 0.4
            ops.append("-" if removed else "u" if str(key) in there else "+")
            rows.append((*key, None if removed else number))
            there.pop(str(key), None)
            if not removed:
                there[str(key)] = key, number
        table = pa.table([list(column) for column in zip(*rows, strict=True)], schema=WINDOW_SCHEMA)
        sink.take(Batch(ops, [now] * len(ops), table), f"o1:{now}")
        expected = sorted(str((*key, number)) for key, number in there.values())
        assert sorted(map(str, lake.rows(tmp_path))) == expected
    sink.close()


@pytest.mark.parametrize(
    "key",
    [
        pa.array([1, 2, 3], pa.int8()),
        pa.array([-(2**63), 2**63 - 1, 0]),
        pa.array(["a" * 30, "a" * 31, "b"]),
        pa.array(["it's \\' \n", "\\", ""]),
        pa.array(["\U0010ffff" * 20, "\uffff" * 20, "\x00é"]),
        pa.array([b"a" * 30, b"a" * 31, b"\xff"]),
        pa.array([False, True, None]),
        pa.array([date(1, 1, 1), date(9999, 12, 31), date(1969, 1, 3)]),
        pa.array([datetime(2026, 1, 1, 0, 0, 0, at) for at in (0, 1, 2)]),  # noqa: DTZ001 (as in SQL)
        pa.array([datetime.min, datetime.max, datetime(1969, 1, 1)]),  # noqa: DTZ001, DTZ901 (as in SQL)
        pa.array([Decimal("0.01"), Decimal("0.02"), Decimal("-5.00")], pa.decimal128(20, 2)),
        pa.array([0.5, math.inf, math.nan], pa.float32()),
    ],
)
def test_keys_have_any_scalar_type(tmp_path: Path, lake: Lake, key: pa.Array, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each key is changed alone, so that the files to read are chosen by it."""
    monkeypatch.setattr(sink_iceberg_files, "SMALL_ROWS", 0)
    sink = lake.open(tmp_path, Content(SinkResult("hot", pa.schema([("k", key.type), ("n", pa.int64())]), ("k",))))
    for at in range(3):
        sink.take(Batch(["+"], [1], pa.table({"k": key.slice(at, 1), "n": [at]})), f"o1:{at}")
    sink.take(Batch(["u"], [2], pa.table({"k": key.slice(1, 1), "n": [7]})), "o1:4")
    sink.take(Batch(["-"], [3], pa.table({"k": key.slice(2, 1), "n": pa.array([None], pa.int64())})), "o1:5")
    assert sorted(n for (n,) in lake.rows(tmp_path, "n")) == [0, 7]
    sink.close()


def test_every_type_has_a_column(tmp_path: Path, lake: Lake) -> None:
    row = {
        "b": True, "h": -3, "i": 3, "l": 2**40, "f": 0.25, "d": 0.5, "e": Decimal("1.50"), "s": "x", "y": b"\xff",
        "a": date(2026, 1, 2), "t": datetime(2026, 1, 2, 3, 4, 5, 6),  # noqa: DTZ001 (as in SQL)
        "j": [Decimal("1.5"), None], "o": {"p": datetime(2026, 1, 2), "q": None},  # noqa: DTZ001 (as in SQL)
    }  # fmt: skip
    small = pa.struct([("p", pa.timestamp("us")), ("q", pa.int8())])
    types = {"h": pa.int8(), "i": pa.int32(), "f": pa.float32(), "e": pa.decimal128(5, 2), "o": small}
    types |= {"j": pa.list_(pa.decimal128(9, 1))}
    table = pa.table({name: pa.array([value], types.get(name)) for name, value in row.items()})
    sink = lake.open(tmp_path, Content(SinkResult("hot", table.schema, ("i",))))
    sink.take(Batch(["+"], [1], table), "o1:1")
    sink.take(Batch(["+"], [1], table.set_column(2, "i", pa.array([4], pa.int32()))), "o1:2")
    assert lake.rows(tmp_path) == [tuple({**row, "i": i}.values()) for i in (3, 4)]
    sink.close()


@pytest.mark.parametrize("kept", [Content(KEYED), Content(BAG), Content(KEYED, changes=True)])
def test_two_sinks_cannot_write_the_same_change(tmp_path: Path, lake: Lake, kept: Content) -> None:
    first, second = (lake.open(tmp_path, kept) for _ in range(2))
    assert token(first) == token(second) is None
    for number, (quick, slow) in enumerate([(first, second), (second, first)]):
        if number:
            slow = lake.open(tmp_path, kept)
            quick = lake.open(tmp_path, kept)
            assert token(quick) == token(slow) == "o1:1"
        quick.take(changes(("+", number, "ab"[number], 1, None)), f"o1:{number + 1}")
        with pytest.raises(UserError, match="another process has written"):
            slow.take(changes(("+", number, "ab"[number], 1, None)), f"o1:{number + 1}")
    assert [room for (room,) in lake.rows(tmp_path, "room")] == ["a", "b"]


def test_a_sink_can_restart(tmp_path: Path, lake: Lake) -> None:
    sink = lake.open(tmp_path, Content(KEYED))
    sink.confirm()
    sink.clear()
    assert sink.position() is None
    sink.take(changes(("+", 1, "a", 1, None)), "o1:1")
    first = sink.position()
    sink.confirm()
    sink.close()
    sink = lake.open(tmp_path, Content(KEYED))
    confirmed = sink.position()
    assert first and confirmed and confirmed.token == "o1:1" and confirmed.confirmed_at >= first.confirmed_at - 0.001
    sink.clear()
    sink.close()
    sink = lake.open(tmp_path, Content(KEYED))
    assert (sink.position(), lake.kept(tmp_path)) == (None, [])
    sink.take(changes(("+", 1, "b", 1, None)), "o1:1")
    assert lake.kept(tmp_path) == [("b", 1, None)]
    sink.close()


def test_a_table_keeps_one_result(tmp_path: Path, lake: Lake) -> None:
    lake.open(tmp_path, Content(KEYED)).close()
    with pytest.raises(UserError, match="choose another"):
        lake.open(tmp_path, Content(SinkResult("cold", KEYED.schema, ("room",))))
    with pytest.raises(UserError, match="has the columns"):
        lake.open(tmp_path, Content(KEYED, changes=True))
    with pytest.raises(UserError, match='key column "a" is an array or a struct'):
        Content(SinkResult("q", pa.schema([("a", pa.list_(pa.int8()))]), ("a",)))


def test_a_table_of_others_is_not_touched(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "delta"), pa.table({"room": ["a"]}))
    with pytest.raises(UserError, match='was not created by a sink of "hot"'):
        DELTA.open(tmp_path / "delta", Content(KEYED))
    catalog = iceberg_catalog(str(tmp_path))
    catalog.create_namespace("shop")
    catalog.create_table(TABLE, KEYED.schema)
    with pytest.raises(UserError, match="is not one of a sink"):
        ICEBERG.open(tmp_path, Content(KEYED))
    catalog.close()


def test_commits_of_other_processes_are_kept(tmp_path: Path, lake: Lake) -> None:
    """Other processes compact files, or remove rows for good, between the steps of a sink that is running."""
    sink = lake.open(tmp_path, Content(KEYED))
    sink.take(changes(("+", 1, "a", 1, None), ("+", 1, "b", 1, None)), "o1:2")
    if lake is ICEBERG:
        table_of(tmp_path).delete("room = 'b'")
    else:
        DeltaTable(str(tmp_path)).delete("room = 'b'")
    sink.take(changes(("+", 2, "c", 2, None)), "o1:3")
    assert lake.kept(tmp_path) == [("a", 1, None), ("c", 2, None)]
    if lake is ICEBERG:
        table_of(tmp_path).delete("room = 'a'")
    else:
        DeltaTable(str(tmp_path)).delete("room = 'a'")
    sink.confirm()
    assert token(lake.open(tmp_path, Content(KEYED))) == "o1:3"
    assert lake.kept(tmp_path) == [("c", 2, None)]
    sink.close()


def test_a_snapshot_has_the_position_in_its_summary(tmp_path: Path) -> None:
    sink = ICEBERG.open(tmp_path, Content(KEYED))
    rows = history(12)
    for at, row in enumerate(rows):
        sink.take(changes(row), f"o1:{at + 1}")
    snapshots = lake_tables.iceberg_snapshots(tmp_path, TABLE)
    assert sorted(int(each["summary"]["dsms-token"][3:]) for each in snapshots) == list(range(1, 13))
    assert {each["summary"]["dsms-result"] for each in snapshots} == {"hot"}
    assert len(ICEBERG.files(tmp_path)) == 1  # small files are written together
    assert len(lake_tables.manifests(snapshots[-1])) <= 2  # those of removed files are not carried along
    assert "commit.retry.num-retries" not in table_of(tmp_path).properties
    table = table_of(tmp_path)
    fifth = next(each for each in table.snapshots() if each.summary["dsms-token"] == "o1:5")
    table.manage_snapshots().rollback_to_snapshot(fifth.snapshot_id).commit()
    sink.close()
    sink = ICEBERG.open(tmp_path, Content(KEYED))
    assert token(sink) == "o1:5"
    sink.take(changes(*rows[5:]), "o1:12")
    assert ICEBERG.kept(tmp_path) == relation(rows)
    sink.close()


def test_an_expired_position_is_an_error_until_a_restart(tmp_path: Path) -> None:
    sink = ICEBERG.open(tmp_path, Content(KEYED))
    sink.take(changes(("+", 1, "a", 1, None), ("+", 1, "b", 1, None)), "o1:2")
    sink.close()
    table = table_of(tmp_path)
    table.delete("room = 'a'")
    current = table.current_snapshot()
    assert current is not None
    table.maintenance.expire_snapshots().by_ids(
        [each.snapshot_id for each in table.snapshots() if each != current]
    ).commit()
    sink = ICEBERG.open(tmp_path, Content(KEYED))
    with pytest.raises(UserError, match="its snapshot has expired; start again with --restart"):
        sink.position()
    sink.clear()
    sink.take(changes(("+", 1, "a", 1, None)), "o1:1")
    assert ICEBERG.kept(tmp_path) == [("a", 1, None)]
    sink.close()


def test_a_commit_has_the_position_and_the_number_of_its_step(tmp_path: Path) -> None:
    sink = DELTA.open(tmp_path, Content(KEYED))
    for at, row in enumerate(history(3)):
        sink.take(changes(row), f"o1:{at + 1}")
    found = [
        ({k: v for each in commit for k, v in each.items()}["txn"], commit[0]["commitInfo"].get("dsms-token"))
        for commit in lake_tables.delta_commits(tmp_path)
    ]
    assert [(each["appId"], each["version"], token_) for each, token_ in found] == [
        ("dsms/hot", number, f"o1:{number}" if number else None) for number in range(4)
    ]
    DeltaTable(str(tmp_path)).restore(2)
    with pytest.raises(UserError, match=r"restored to an earlier version.*--restart"):
        DELTA.open(tmp_path, Content(KEYED)).position()


def test_a_step_without_effect_stores_its_position(tmp_path: Path, lake: Lake) -> None:
    sink = lake.open(tmp_path, Content(KEYED))
    for at in range(3):
        sink.take(changes(("+", at, "a", 1, None), ("-", at, "a", None, None)), f"o1:{2 * at + 2}")
        assert token(lake.open(tmp_path, Content(KEYED))) == f"o1:{2 * at + 2}"
    sink.take(changes(("+", 7, "b", 1, None)), "o1:7")
    assert lake.kept(tmp_path) == [("b", 1, None)]
    sink.close()


def test_a_running_sink_notices_that_its_table_was_reset(tmp_path: Path, lake: Lake) -> None:
    """It would otherwise write the next changes to rows that lack the ones before."""
    sink = lake.open(tmp_path, Content(KEYED))
    rows = history(9)
    for start in range(0, 6, 3):
        sink.take(changes(*rows[start : start + 3]), f"o1:{start + 3}")
    if lake is ICEBERG:
        table = table_of(tmp_path)
        first = next(each for each in table.snapshots() if each.summary["dsms-token"] == "o1:3")
        table.manage_snapshots().rollback_to_snapshot(first.snapshot_id).commit()
    else:
        DeltaTable(str(tmp_path)).restore(1)
    with pytest.raises(UserError, match=r"another process has written|restored to an earlier version.*--restart"):
        sink.take(changes(*rows[6:]), "o1:9")
    assert lake.kept(tmp_path) == relation(rows[:3])
    sink.close()
    if lake is DELTA:
        sink = lake.open(tmp_path, Content(KEYED))
        sink.clear()
        assert token(sink) is None
    else:
        sink = lake.open(tmp_path, Content(KEYED))
        assert token(sink) == "o1:3"
    at = int((token(sink) or "o1:0")[3:])
    sink.take(changes(*rows[at:]), "o1:9")
    assert lake.kept(tmp_path) == relation(rows)
    sink.close()


def test_a_checkpoint_of_the_log_keeps_the_number_of_the_step(tmp_path: Path) -> None:
    """Also if the log has lost the commit with the position, which is then an error, not a new beginning."""
    sink = DELTA.open(tmp_path, Content(KEYED))
    rows = history(4)
    for at in range(3):
        sink.take(changes(rows[at]), f"o1:{at + 1}")
    DeltaTable(str(tmp_path)).create_checkpoint()
    log = sorted((tmp_path / "_delta_log").glob("*.json"))
    for file in log[:-1]:
        file.unlink()
    sink = DELTA.open(tmp_path, Content(KEYED))
    assert token(sink) == "o1:3"
    log[-1].unlink()
    with pytest.raises(UserError, match="was removed from the log; start again with --restart"):
        DELTA.open(tmp_path, Content(KEYED)).position()


def test_unusable_targets_are_refused_without_their_credentials(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="must not hold credentials"):
        DeltaSink("s3://key:hush@bucket/hot", Content(KEYED))
    with pytest.raises(UserError, match='catalog "nowhere" cannot be used') as raised:
        iceberg_catalog("//nowhere")
    assert "hush" not in str(raised.value)
    with pytest.raises(UserError, match='"hot" has no namespace'):
        IcebergSink(iceberg_catalog(str(tmp_path)), "hot", Content(KEYED))


class BrokenCatalog(InMemoryCatalog):
    """Fails with a given error when tables are committed."""

    error: Exception

    def commit_table(self, *_: Any, **__: Any) -> Any:
        raise self.error


@pytest.mark.parametrize(
    ("error", "raised", "message"),
    [
        (exceptions.ForbiddenError("no rights"), UserError, '"shop.hot" cannot be written: no rights'),
        (exceptions.CommitStateUnknownException("gone"), ExternalError, "failed: CommitStateUnknownException: gone"),
        (exceptions.SignError("no signature"), ExternalError, "failed: SignError"),
        (OSError("no route"), ExternalError, "failed: OSError: no route"),
        (SQLAlchemyError("x:hush@y"), ExternalError, "its catalog reports SQLAlchemyError"),
        (exceptions.CommitFailedException("late"), ExternalError, "changed by other processes all the time"),
    ],
)
def test_errors_of_a_catalog_are_reported(error: Exception, raised: type[Exception], message: str) -> None:
    catalog = BrokenCatalog("broken")
    catalog.error = error
    sink = IcebergSink(catalog, TABLE, Content(KEYED))
    with pytest.raises(raised, match=message) as found:
        sink.take(changes(("+", 1, "a", 1, None)), "o1:1")
    assert "hush" not in str(found.value)
    sink.close()


WRITER = """
import sys
from pathlib import Path
from tests.connectors.test_lake_sinks import LAKES, changes, history, token
from tests.connectors.test_sinks import KEYED
from connectors.tables.sink_content import Content
lake, directory, kind = LAKES[sys.argv[1]], Path(sys.argv[2]), sys.argv[3]
sink, rows = lake.open(directory, Content(KEYED, changes=kind == "changes")), history(1000)
at = int((token(sink) or "o1:0")[3:])
print("ready", flush=True)
while at < len(rows):
    sink.take(changes(*rows[at : at + 3]), f"o1:{at + 3}")
    at += 3
"""


def killed(arguments: list[str], after_s: float) -> None:
    with subprocess.Popen([sys.executable, "-c", WRITER, *arguments], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        try:
            writer.wait(after_s)
        except subprocess.TimeoutExpired:
            writer.send_signal(signal.SIGKILL)
        assert writer.wait() == -signal.SIGKILL


@pytest.mark.parametrize("kind", ["rows", "changes"])
@pytest.mark.parametrize("name", LAKES)
def test_a_killed_writer_has_stored_each_change_once(tmp_path: Path, name: str, kind: str) -> None:
    lake, rows = LAKES[name], history(1000)
    for turn in range(3):
        killed([name, str(tmp_path), kind], 0.05 + 0.2 * turn)
        sink = lake.open(tmp_path, Content(KEYED, changes=kind == "changes"))
        at = int((token(sink) or "o1:0")[3:])
        sink.close()
        if kind == "rows":
            assert lake.kept(tmp_path) == relation(rows[:at])
        else:
            found = sorted(lake.rows(tmp_path, "dsms_op, dsms_ts, room, n"), key=lambda row: row[1])
            assert found == [row[:4] for row in rows[:at]]
    assert at > 0
