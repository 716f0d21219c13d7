"""Checks the log law for the executor's code: exchanges, crashes and batches change no result record of a case."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from confluent_kafka import Message
from hypothesis import strategies as st

from tests.algebra.cases import Case
from tests.algebra.query_leaves import ARROW, END, Source
from tests.support.fake_environment import FakeEnvironment, apply_all
from tests.support.oracle import Record
from tests.support.pure_executor import World, run

#: The instant of the last record of each partition, which makes all earlier records final.
_LAST = 2 * END
_PLAIN = {
    "k": 0, "n": 0, "s": "a", "f": 0.5, "b": True, "d": 0.1, "m": "0.25", "y": "2024-05-01",
    "h": "2024-05-01T18:30:00Z",
}  # fmt: skip
assert set(_PLAIN) == set(ARROW)


class Broken(AssertionError):
    """Raised for a case whose result records depend on how it was run."""


#: Number of targets, limits of the records per epoch, and the epoch at which a crash loses the manifest.
RUNS = st.tuples(
    st.integers(1, 3), st.lists(st.integers(1, 9), min_size=1, max_size=3), st.one_of(st.none(), st.integers(0, 4))
)


def check_executor(case: Case, partitions: int, how: tuple[int, list[int], int | None]) -> None:
    """Raises Broken unless the run gives the same records as a run with one epoch and one target."""
    whole, pieces = _records(case, partitions, (1, [10_000], None)), _records(case, partitions, how)
    if whole != pieces:
        raise Broken(f"{how} over {partitions} partitions\n  whole:  {whole}\n  pieces: {pieces}\n{case}")


def _records(case: Case, partitions: int, how: tuple[int, list[int], int | None]) -> dict[str, list[tuple]]:
    logs = {f"t{source.number}": log_of(source, partitions) for source in case.sources}
    environment = FakeEnvironment({topic: dict.fromkeys(parts, 0) for topic, parts in logs.items()})
    catalog, _ = apply_all("; ".join(with_little_slack(case).statements), environment=environment)
    targets, limits, crash_at = how
    world = run(World(logs), catalog, targets, limits, crash_at)
    return world.written


def with_little_slack(case: Case) -> Case:
    """The case with so little slack that the last records make all earlier ones final."""
    return replace(case, sources=tuple(replace(source, slack=min(source.slack, 3)) for source in case.sources))


def log_of(source: Source, partitions: int) -> dict[int, list[Message]]:
    """The records, dealt out to the partitions; each partition ends with a record of the instant _LAST."""
    records = [event for event in source.events if isinstance(event, Record)]
    row = {name: _PLAIN[name] for name in source.columns}
    ends = [Record(_LAST, row)]
    parts = {part: [*records[part::partitions], *ends] for part in range(partitions)}
    return {part: _messages(f"t{source.number}", part, listed) for part, listed in parts.items()}


def _messages(topic: str, partition: int, records: Sequence[Record]) -> list[Message]:
    return [
        Message(
            topic=topic, partition=partition, offset=at, key=None, value=json.dumps(record.row, default=_text).encode(),
            headers=[("dsms-op", b"-")] if record.deletion else [], timestamp=(1, record.ts),
        )
        for at, record in enumerate(records)
    ]  # fmt: skip


def _text(value: object) -> str:
    """A decimal, date or timestamp as JSON text."""
    return f"{value.isoformat()}Z" if isinstance(value, datetime) else str(value)
