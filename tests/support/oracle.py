"""The laws evaluated from scratch: plain Python for the relations of streams, DuckDB for the queries over them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tests.support import duck_engine

Row = dict[str, object]
#: The relation at every instant of a range, by instant.
Relations = dict[int, list[Row]]
Change = tuple[str, Row, int]


@dataclass(frozen=True)
class Record:
    """A decodable record of a log."""

    ts: int
    row: Row
    deletion: bool = False


@dataclass(frozen=True)
class Advance:
    """A heartbeat in a log: no later record has an instant below `ts`."""

    ts: int


@dataclass(frozen=True)
class Bad:
    """A record that cannot be decoded."""


Event = Record | Advance | Bad


def accept(events: Iterable[Event], slack: int) -> tuple[list[Record], list[int]]:
    """The accepted records in log order, and the positions (among all records) of the late ones."""
    high, promised = None, None
    accepted: list[Record] = []
    late: list[int] = []
    position = -1
    for event in events:
        if isinstance(event, Advance):
            promised = event.ts if promised is None else max(promised, event.ts)
            continue
        position += 1
        if isinstance(event, Bad):
            continue
        too_late = high is not None and event.ts < high - slack
        if too_late or (promised is not None and event.ts < promised):
            late.append(position)
            continue
        high = event.ts if high is None else max(high, event.ts)
        accepted.append(event)
    return accepted, late


def stream_at(accepted: Sequence[Record], keys: Sequence[str], at: int) -> list[Row]:
    """R[S(T)] with TS: by key the last record with ts ≤ T by (ts, log order); without keys all insertions."""
    seen = sorted((record for record in accepted if record.ts <= at), key=lambda record: record.ts)
    if not keys:
        return [{**record.row, "TS": record.ts} for record in seen if not record.deletion]
    last = {tuple(record.row.get(key) for key in keys): record for record in seen}
    return [{**record.row, "TS": record.ts} for record in last.values() if not record.deletion]


class Duck:
    """DuckDB without its optimizer, over one relation at a time."""

    def __init__(self) -> None:
        self._database = duck_engine.connection()

    def rows(self, sql: str, name: str, rows: Sequence[Row], schema: pa.Schema) -> list[Row]:
        """The rows of a query over the relation `name`."""
        self._database.register(name, pa.Table.from_pylist([dict(row) for row in rows], schema=schema))
        result = self._database.execute(sql)
        columns = [column[0] for column in result.description]
        return [dict(zip(columns, row, strict=True)) for row in result.fetchall()]

    def schema(self, sql: str, name: str, schema: pa.Schema) -> pa.Schema:
        """The schema of a query over a relation with that schema."""
        self._database.register(name, schema.empty_table())
        return self._database.sql(sql).to_arrow_table().schema


def bag(rows: Iterable[Mapping[str, object]]) -> Counter[str]:
    """The rows as a multiset; values of different types differ."""
    return Counter(repr(sorted(row.items())) for row in rows)


def restamped(relations: Relations, keys: Sequence[str]) -> Relations:
    """ℜ(V): the rows of V with TS, the instant at which the row of the key last changed or, without keys, entered."""
    since: dict[str, tuple[Row, int]] = {}
    rows_since: list[tuple[Row, int]] = []
    result: Relations = {}
    for at, rows in relations.items():
        if keys:
            since = {_key(row, keys): _since(since, row, keys, at) for row in rows}
            rows_since = list(since.values())
        else:
            new = bag(rows) - bag([row for row, _ in rows_since])
            for row in rows:
                if new[repr(sorted(row.items()))] > 0:
                    new[repr(sorted(row.items()))] -= 1
                    rows_since.append((row, at))
        result[at] = [{**row, "TS": ts} for row, ts in rows_since]
    return result


def _since(since: Mapping[str, tuple[Row, int]], row: Row, keys: Sequence[str], at: int) -> tuple[Row, int]:
    known = since.get(_key(row, keys))
    return known if known is not None and bag([known[0]]) == bag([row]) else (row, at)


def _key(row: Row, keys: Sequence[str]) -> str:
    return repr([row[key] for key in keys])


def keyed_changes(relations: Relations, keys: Sequence[str]) -> list[Change]:
    """The changelog of a keyed relation: `+` a key enters, `u` its row changes, `-` it leaves."""
    before: dict[str, Row] = {}
    changes: list[Change] = []
    for at, rows in relations.items():
        now = {_key(row, keys): row for row in rows}
        changes += [("-", {key: row[key] for key in keys}, at) for name, row in before.items() if name not in now]
        for name, row in now.items():
            if name not in before:
                changes.append(("+", row, at))
            elif bag([row]) != bag([before[name]]):
                changes.append(("u", row, at))
        before = now
    return changes


def change_bag(changes: Iterable[Change]) -> Counter[str]:
    """Changes as a multiset, since changes of one instant come in any order."""
    return Counter(repr((op, sorted(row.items()), ts)) for op, row, ts in changes)
