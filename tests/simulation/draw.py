"""Draws a history from a seed: a case of the oracle, when its records are sent, and what fails meanwhile."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from random import Random

from hypothesis.control import BuildContext
from hypothesis.errors import UnsatisfiedAssumption
from hypothesis.internal.conjecture.data import ConjectureData, StopTest

from dsms.simulation.clients import in_order
from dsms.simulation.history import History, Layout, Publication, Statement
from dsms.simulation.random_layouts import random_layout
from tests.algebra.cases import Case, cases
from tests.algebra.even_draws import EvenProvider
from tests.algebra.query_leaves import END, Source
from tests.simulation.draw_changes import Changes, changes
from tests.simulation.draw_columns import adds_columns, column_statements
from tests.simulation.draw_divided import (
    can_be_divided,
    can_be_shared,
    divided,
    divided_twice,
    drops_of_first,
    is_divided_twice,
    shared,
)
from tests.simulation.draw_faults import faults
from tests.simulation.draw_moves import move_faults, move_statements, moves, shared_move_statements, shared_moves
from tests.simulation.draw_renames import rename_statements, renames
from tests.simulation.draw_shed import PARTITIONS, TOPIC, shed_faults, shed_publications, shed_statements, sheds
from tests.simulation.draw_tables import table_statements, writes_a_table
from tests.support.oracle import Advance, Record

#: An instant after all records of a case: a heartbeat with it makes everything final.
LAST = 4 * END
#: When the statements have been sent, and when all records have been.
_BEGIN_S, _UNTIL_S = 4.0, 30.0
#: What histories are about, and how often. Those of a theme have its statements and faults only: most faults of the
#: product need several things at once.
_THEMES = {
    "": 5, "late commits": 2, "lost commits": 1, "recreated": 2, "replaced": 1, "damaged": 1, "silent": 1, "divided": 1,
}  # fmt: skip
#: The times of themes that do not work with all.
_TIMES = {"silent": "silent", "divided": "silent"}
#: A statement that names a stream or view, and its text.
_NAMED, _WORD = re.compile(r"CREATE (?:STREAMED VIEW|STREAM) (\w+) AS (.*)", re.DOTALL), re.compile(r"\w+")


@dataclass(frozen=True)
class Drawn:
    """A history, and the case of the oracle that its records come from."""

    history: History
    case: Case
    #: Whether DuckDB knows the relations: the records of each source are in one partition, and no source is idle.
    ordered: bool


def drawn(seed: int) -> Drawn:
    """The history of a seed."""
    chance = Random(f"history {seed}")
    (theme,) = chance.choices(list(_THEMES), list(_THEMES.values()))
    case = _case(chance, theme)
    layout = random_layout(chance)
    if theme == "divided":
        layout = replace(layout, executors=2, fragments=2)
    elif theme and theme != "silent":
        layout = replace(layout, executors=1)
    if theme == "late commits":
        layout = replace(layout, transaction_version=1, verification=chance.random() < 0.2)
    layout = replace(layout, checkpoint_s=_checkpoint_s(seed))
    topics = {f"t{source.number}": chance.choice([1, 1, 2]) for source in case.sources}
    time = _TIMES.get(theme) or chance.choice(["ordered", "ordered", "mixed", "silent"])
    if theme == "divided":
        topics = dict.fromkeys(topics, 2)
    elif time == "ordered":
        topics = dict.fromkeys(topics, 1)
    inputs = list(_inputs(case, time, chance))
    changed = changes(case, [each.sql for each in inputs], topics, chance, theme)
    queries = [*case.statements[len(case.inputs) :]]
    if theme == "divided":
        queries[-1:] = _run_by_two_fragments(queries[-1], seed, case)
    statements = [*inputs, *_queries(queries, chance, at_once=bool(theme or changed.moments)), *changed.statements]
    if writes_a_table(seed, theme):
        statements += table_statements(seed)
    publications = _publications(case, topics, changed, chance, ended=time != "silent")
    failing = faults(layout, changed.moments, _UNTIL_S, chance, theme)
    if changed == Changes() and (moving := _moving(seed, theme, layout, statements)):
        statements += moving
        failing = tuple(sorted([*failing, *move_faults(seed, layout, moving)], key=lambda fault: fault.at_s))
    if sheds(seed, theme):
        failing = tuple(sorted([*failing, *shed_faults(seed, layout)], key=lambda fault: fault.at_s))
        statements += shed_statements(seed)
        topics |= {TOPIC: PARTITIONS}
        publications = in_order([*publications, *shed_publications(seed)])
    history = History(
        seed,
        topics,
        tuple(sorted(statements, key=lambda each: each.at_s)),
        publications,
        failing,
        layout,
        changed.added,
        changed.recreated,
        _reads(case) if time == "silent" else {},
    )
    return Drawn(history, case, ordered=time == "ordered" and not changed.moments)


def _moving(seed: int, theme: str, layout: Layout, statements: Sequence[Statement]) -> list[Statement]:
    """The statements that move the query between fragments, or one of two queries that share operators, or both; for
    two divided queries, the one that drops the first; in other histories, statements that rename objects, or that add
    columns."""
    created = {name: each.at_s for each in statements for name in "PQ" if f" VIEW {name} " in each.sql}
    if "P" in created and any("fragments = 2" in each.sql for each in statements):
        return drops_of_first(seed, created["Q"], _UNTIL_S)
    if "P" in created:
        moving = shared_move_statements(seed, created["Q"]) if shared_moves(seed) else []
    else:
        moving = move_statements(seed, created["Q"]) if moves(seed, theme, layout) else []
    if moving or renames(seed):
        return moving or rename_statements(seed, statements)
    return column_statements(seed, statements) if adds_columns(seed) else []


def _checkpoint_s(seed: int) -> float | None:
    """Seconds between checkpoints; None in two thirds of the histories."""
    return Random(f"checkpoints {seed}").choice([None, None, None, None, 2.0, 5.0])


def _run_by_two_fragments(query: str, seed: int, case: Case) -> list[str]:
    if _is_shared(seed, case):
        return shared(query)
    return divided_twice(query) if is_divided_twice(seed) else [divided(query)]


def _is_shared(seed: int, case: Case) -> bool:
    """Whether two fragments share the operators of the query, in place of dividing it."""
    return Random(f"shared {seed}").random() < 0.5 and can_be_shared(case)


def _case(chance: Random, theme: str) -> Case:
    """A case whose query reads some sources, and can be divided if that is the theme."""
    least_sources = 3 if theme == "silent" else 1
    while True:
        data = ConjectureData(random=Random(chance.random()), provider=EvenProvider)
        try:
            with BuildContext(data, wrapped_test=_case):
                case = data.draw(cases(chance.choice([6, 12, 24, 24]), 3, with_tables=False))
        except (StopTest, UnsatisfiedAssumption):
            continue
        if len(_reads(case)["Q"]) >= least_sources and (theme != "divided" or can_be_divided(case)):
            return case


def _inputs(case: Case, time: str, chance: Random) -> Iterator[Statement]:
    """The sources and streams. If the case is ordered, no source is ever idle; if it is silent, all sources are."""
    for at, source in enumerate(case.sources):
        idle = {"ordered": " IDLE AFTER 10000 SECONDS", "silent": " IDLE AFTER 1 SECONDS"}.get(time)
        first, rest = source.sql.split("; ", 1)
        yield Statement(0.2 + at / 10, first + (idle or chance.choice(["", "", " IDLE AFTER 1 SECONDS"])))
        yield Statement(0.25 + at / 10, rest)


def _queries(queries: Sequence[str], chance: Random, *, at_once: bool) -> Iterator[Statement]:
    at_s = 1.0 if at_once else chance.choice([1.0, 1.0, _UNTIL_S / 2, _UNTIL_S])
    for number, sql in enumerate(queries):
        yield Statement(at_s + number / 10, sql)


def _reads(case: Case) -> dict[str, frozenset[str]]:
    """The topics that the case's query reads, itself or through views."""
    texts = dict(match.groups() for sql in case.statements[len(case.inputs) :] if (match := _NAMED.match(sql)))
    reached, left = set[str](), ["Q"]
    while left:
        name = left.pop()
        reached.add(name)
        left += set(_WORD.findall(texts.get(name, ""))) & texts.keys() - reached
    text = " ".join(texts[name] for name in reached)
    return {"Q": frozenset(f"t{each.number}" for each in case.sources if each.stream in _WORD.findall(text))}


def _publications(
    case: Case, topics: Mapping[str, int], changed: Changes, chance: Random, *, ended: bool
) -> tuple[Publication, ...]:
    """The records and heartbeats of all sources, with those for added partitions."""
    more = {each.topic: each.partitions for each in changed.added}
    found: list[Publication] = []
    prompt = chance.random() < 0.7
    for source in case.sources:
        topic = f"t{source.number}"
        found += _of_source(source, topics[topic], chance, prompt=prompt)
        if ended:
            found += (
                Publication(_UNTIL_S, topic, partition, heartbeat=LAST)
                for partition in range(more.get(topic, topics[topic]))
            )
    return in_order(found)


def _of_source(source: Source, partitions: int, chance: Random, *, prompt: bool) -> Iterator[Publication]:
    """The records and heartbeats of a source, dealt out to its partitions. If `prompt`, heartbeats make instants final
    as soon as all their records are sent, so that results are published early."""
    topic, at_s = f"t{source.number}", _BEGIN_S
    pause_s = chance.choice([0.5, 1, 2, 2]) * (_UNTIL_S - _BEGIN_S) / max(len(source.events), 1) / 2
    least = _least_instants_after(source)
    for number, event in enumerate(source.events):
        at_s = min(at_s + chance.uniform(0, 2 * pause_s), _UNTIL_S)
        if isinstance(event, Record):
            value, op = json.dumps(event.row, default=_text).encode(), "-" if event.deletion else None
            yield Publication(at_s, topic, number % partitions, value, ts=event.ts, op=op)
        elif isinstance(event, Advance):
            for partition in range(partitions):
                yield Publication(at_s, topic, partition, heartbeat=event.ts)
        if prompt and least[number] is not None:
            for partition in range(partitions):
                yield Publication(at_s, topic, partition, heartbeat=least[number])


def _least_instants_after(source: Source) -> list[int | None]:
    """For each event, the least instant of the records after it; None if there are none."""
    found: list[int | None] = []
    least: int | None = None
    for event in reversed(source.events):
        found.append(least)
        if isinstance(event, Record):
            least = event.ts if least is None else min(event.ts, least)
    return found[::-1]


def _text(value: object) -> str:
    """A decimal, date or timestamp as JSON text."""
    return f"{value.isoformat()}Z" if isinstance(value, datetime) else str(value)
