"""Streams of "Continuous Queries over Data Streams" (PIPES) in the notation of the thesis, and queries over them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from dsms.testing import LocalSession
from tests.papers.tables import elements

FOREVER = 1 << 40
#: Raw streams: L1, L2, L3 (chapter 8) and C3 (chapter 11). In PIPES, a stream without a window has the now-window.
LOGICAL = {
    "L1": "1:⟨c⟩ 2:⟨a3⟩ 3:⟨a3,b⟩ 4:⟨a3,b,c⟩ 5:⟨b2⟩ 6:⟨b2⟩",
    "L2": "2:⟨b2⟩ 3:⟨b2⟩ 4:⟨a,b,c⟩ 5:⟨a2,b⟩ 6:⟨a,c2⟩",
    "L3": "1:⟨c⟩ 2:⟨a⟩ 3:⟨b⟩ 4:⟨b⟩ 5:⟨a⟩ 6:⟨c⟩",
    "C3": "1:⟨b⟩ 3:⟨a⟩ 4:⟨c⟩ 7:⟨a⟩ 10:⟨b⟩",
}
#: Streams of intervals (table 11.1).
PHYSICAL = {
    "S1": "c[1,8) a[5,11) d[6,14) a[9,10) b[12,17)",
    "S2": "b[1,7) d[3,9) a[4,5) b[7,15) e[10,18)",
}


def session_of(cut: tuple[int, int | None], raw: Mapping[str, str], queries: Mapping[str, str]) -> LocalSession:
    """A session with raw streams of a column e, given as snapshots, and the streams that queries derive from them."""
    session = LocalSession(*cut)
    for name in raw:
        session.execute(f"REGISTER SOURCE Of{name} (e VARCHAR) FROM {name}")
        session.execute(f"CREATE STREAM {name} OVER Of{name} KEY NULL")
    _derive(session, queries)
    for name, text in raw.items():
        session.push(f"Of{name}", [{"e": row, "ts": at} for at, row in sorted(_instants(text))])
    session.advance(200)
    return session


def interval_session(
    cut: tuple[int, int | None], physical: Mapping[str, str], queries: Mapping[str, str], fed: str
) -> LocalSession:
    """A session with streams of intervals of a column e, fed in one of two ways.

    "ends": rows contain their end, at which a predicate over Now removes them. "changes": rows with a key are inserted
    and deleted.
    """
    session = LocalSession(*cut)
    for name in physical:
        session.execute(f"REGISTER SOURCE Of{name} (id INT, e VARCHAR, ends BIGINT) FROM {name}")
        session.execute(
            f"CREATE STREAM Raw{name} OVER Of{name} KEY NULL; CREATE STREAM {name} AS"
            f" SELECT e FROM ℜ(Raw{name}) R WHERE R.TS <= Now AND Now < R.ends"
            if fed == "ends"
            else f"CREATE STREAM Raw{name} OVER Of{name} KEY id; CREATE STREAM {name} AS SELECT e FROM Raw{name}"
        )
    _derive(session, queries)
    for name, text in physical.items():
        session.push(f"Of{name}", _ending(text) if fed == "ends" else _changing(text))
    session.advance(200)
    return session


def _derive(session: LocalSession, queries: Mapping[str, str]) -> None:
    for name, query in queries.items():
        session.execute(f"CREATE STREAM {name} AS {query}")


def _instants(text: str) -> list[tuple[int, str]]:
    pairs = []
    for at, rows in re.findall(r"(\d+):⟨([^⟩]*)⟩", text):
        for row, count in re.findall(r"([a-z]+)(\d*)", rows):
            pairs += [(int(at), row)] * int(count or 1)
    return pairs


def _ending(text: str) -> Sequence[dict[str, object]]:
    rows = sorted(elements(text), key=lambda pair: pair[1])
    return [{"id": n, "e": row, "ends": end or FOREVER, "ts": start} for n, (row, start, end) in enumerate(rows)]


def _changing(text: str) -> Sequence[dict[str, object]]:
    events = []
    for n, (row, start, end) in enumerate(elements(text)):
        events.append({"id": n, "e": row, "ends": 0, "ts": start, "op": "+"})
        if end is not None:
            events.append({"id": n, "e": row, "ends": 0, "ts": end, "op": "-"})
    return sorted(events, key=lambda event: int(str(event["ts"])))
