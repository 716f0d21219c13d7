"""Log law: batches, partitions and the times of heartbeats do not change a single record of the output."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dsms.testing import LocalSession
from tests.support import strategies
from tests.support.oracle import Record
from tests.support.strategies import END, History


def run(history: History, statements: str, cut, pieces: list[int], promises: bool) -> LocalSession:
    """Pushes the history in pieces. With `promises`, time advances after each piece as far as possible without making
    records late."""
    session = LocalSession(*cut)
    session.execute(history.shape.sql + statements)
    events = list(history.events)
    while events:
        size = pieces.pop() if pieces else len(events)
        now, events = events[:size], events[size:]
        session.push("T", [record for _, record in now if record is not None])
        to_come = [event.ts for event, _ in events if isinstance(event, Record)]
        if promises:
            session.advance(min(to_come, default=END))
    session.advance(END)
    return session


@given(
    strategies.histories(advances=False, max_size=25),
    st.data(),
    st.lists(st.integers(1, 6), max_size=8),
    st.sampled_from([None, 1, 2, 7]),
    st.integers(1, 4),
    st.booleans(),
)
def test_changes_and_dead_letters_are_a_function_of_the_log(history, data, pieces, batch, partitions, promises) -> None:
    first = data.draw(strategies.views("V", "S", frozenset(strategies.COLUMNS), ts=True))
    statements = first.sql + "; CREATE STREAMED VIEW W AS SELECT * FROM R(V)"
    whole = run(history, statements, (1, None), [], promises=False)
    cut = run(history, statements, (partitions, batch), pieces, promises)
    for name in ("S", "V", "W"):
        assert cut.changes(name) == whole.changes(name)
    assert cut.dead_letters("T") == whole.dead_letters("T")


@given(strategies.histories(advances=False), st.data())
def test_when_a_query_is_registered_does_not_matter(history, data) -> None:
    view = data.draw(strategies.views("V", "S", frozenset(strategies.COLUMNS), ts=True))
    early = run(history, view.sql, (1, None), [], promises=False)
    late = LocalSession()
    late.execute(history.shape.sql)
    late.push("T", history.pushed)
    late.advance(END)
    late.execute(view.sql)
    assert late.changes("V") == early.changes("V")


def test_equal_rows_of_two_keys_do_not_cancel_by_chance_of_the_partition() -> None:
    """Two keys swap their values at one instant: the published records do not depend on their partitions."""
    published = []
    for partitions in (1, 2, 3, 5, 8):
        session = LocalSession(partitions)
        session.execute(
            "REGISTER SOURCE T (k INT, v INT) FROM t; CREATE STREAM S OVER T KEY k;"
            "CREATE STREAMED VIEW V AS SELECT v FROM S"
        )
        session.push("T", [{"k": k, "v": (k + ts) % 4, "ts": ts} for ts in (1, 2) for k in range(4)])
        session.advance(9)
        assert sorted(row["v"] for row in session.relation("V")) == [0, 1, 2, 3]
        published.append(session.changes("V"))
    assert all(records == published[0] for records in published)
