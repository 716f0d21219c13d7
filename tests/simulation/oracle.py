"""Compares what a simulated service has published with DuckDB, at every instant, and with estimates of shed queries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import pyarrow as pa

from connectors.formats.json_decode import JsonDecoder
from connectors.kafka.client.names import HEARTBEAT_HEADER, OP_HEADER, TS_HEADER
from dsms.simulation.topics import visible
from dsms.simulation.verdict import Records, Seen
from dsms.simulation.world import World
from dsms.testing import LocalSession
from dsms.testing.changes import Change, relation_at
from tests.algebra.case_check import Wrong, compare
from tests.algebra.cases import Case
from tests.algebra.duck import Duck
from tests.algebra.query_leaves import ARROW, Source
from tests.simulation.draw import LAST, Drawn
from tests.simulation.draw_shed import wrong_estimates, wrong_parts
from tests.simulation.draw_tables import wrong_tables
from tests.support.oracle import Advance, Event, Record


def wrong_relations(given: Drawn, world: World) -> Iterator[str]:
    """Where the relation of the case's query differs from DuckDB's. Nothing is compared unless the case is ordered, its
    query exists and everything in the logs of its sources is final, which a shrunk history may have lost."""
    if not given.ordered or world.history.statements != given.history.statements:
        return
    refused = [f"refused: {answer.error}" for answer in world.client.answers if answer.error]
    logged = _as_logged(given.case, world)
    if refused:
        yield from refused
    elif all(source.events[-1:] == (Advance(LAST),) for source in logged.sources):
        yield from differing(logged, world.published().get("dsms.Q", {}))


def wrong_results(world: World) -> Iterator[str]:
    """What is wrong with the results of tables and of shed queries, which any history may have."""
    yield from wrong_tables(world)
    yield from wrong_estimates(world)
    yield from wrong_parts(world)


def differing(case: Case, published: Records) -> Iterator[str]:
    """Where the relation that result records of the case's query add up to differs from DuckDB's."""
    changes, keys = _changes(case, published)
    try:
        compare(case, lambda at: relation_at(changes, keys, at), _duck())
    except Wrong as wrong:
        yield f"Q differs from DuckDB {wrong}"


@lru_cache(maxsize=1)
def _duck() -> Duck:
    return Duck()


def _changes(case: Case, published: Records) -> tuple[list[Change], Sequence[str]]:
    """The published changes in the order of their instants, removals first, and the key of the result."""
    session = LocalSession()
    session.execute("; ".join(case.statements))
    output = session.runtime.output(session.catalog.find("Q").id)
    records = [record for partition in published.values() for record in partition]
    changes = [_change(record, output.schema, output.keys) for record in records]
    return sorted(changes, key=lambda change: (change[2], change[0] != "-")), output.keys


def _change(record: Seen, schema: pa.Schema, keys: Sequence[str]) -> Change:
    headers = _headers(record)
    op = headers.get(OP_HEADER, "+")
    if op == "-" and keys:
        schema, value = pa.schema([schema.field(name) for name in keys]), record.key
    else:
        value = record.value
    return op, _row(schema, value), int(headers[TS_HEADER])


def _as_logged(case: Case, world: World) -> Case:
    """The case with the records and heartbeats that are in the logs of its sources: others may have been lost."""
    return replace(case, sources=tuple(_source_as_logged(source, world) for source in case.sources))


def _source_as_logged(source: Source, world: World) -> Source:
    topic = world.kafka.image.topics[f"t{source.number}"]
    return replace(source, events=tuple(_event(source, record) for record in visible(world.kafka.log(topic, 0))))


def _event(source: Source, record: Seen) -> Event:
    headers = _headers(record)
    if HEARTBEAT_HEADER in headers:
        return Advance(int(headers[HEARTBEAT_HEADER]))
    deletion = headers.get(OP_HEADER) == "-"
    names = source.keys if deletion else source.columns
    return Record(
        int(headers[TS_HEADER]), _row(pa.schema({name: ARROW[name] for name in names}), record.value), deletion
    )


def _row(schema: pa.Schema, value: bytes | None) -> dict[str, object]:
    decoded = JsonDecoder(schema).decode([value or b""])
    assert not decoded.refused, f"{value!r} is not a row of {schema}: {decoded.refused[0].message}"
    return decoded.frame.row(0, named=True)


def _headers(record: Seen) -> Mapping[str, str]:
    return {name: (value or b"").decode() for name, value in record.headers}
