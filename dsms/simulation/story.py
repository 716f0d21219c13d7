"""Tells the history of a simulation, and how it went, as text."""

from __future__ import annotations

from collections.abc import Iterator

from dsms.simulation.history import History, Publication
from dsms.simulation.run import Outcome

#: The most events, and the most characters of one, that a story shows.
_MAX_EVENTS, _WIDTH = 200, 220


def story(outcome: Outcome, most_events: int = _MAX_EVENTS) -> str:
    """The seed, what happened, the last events, and what was wrong."""
    return "\n".join(_lines(outcome, most_events))


def _lines(outcome: Outcome, most_events: int) -> Iterator[str]:
    history = outcome.history
    yield f"seed {history.seed}, {history.layout}"
    yield from _happenings(history)
    yield f"{outcome.seconds:.1f} s of virtual time, {outcome.steps} steps, trace {outcome.digest}; the last events:"
    yield from (f"  {event[:_WIDTH]}" for event in outcome.events[max(len(outcome.events) - most_events, 0) :])
    yield "nothing is wrong" if not outcome.problems else "wrong:"
    yield from (f"  {problem}" for problem in outcome.problems)


def _happenings(history: History) -> Iterator[str]:
    """The parts of a history in the order of their times."""
    parts = [(statement.at_s, statement.sql) for statement in history.statements]
    parts += [(publication.at_s, _record(publication)) for publication in history.publications]
    parts += [(added.at_s, f"{added.topic} gets {added.partitions} partitions") for added in history.added]
    parts += [(each.at_s, f"{each.topic} is deleted and created again") for each in history.recreated]
    parts += [(fault.at_s, f"FAULT {fault}") for fault in history.faults]
    yield from (f"  {at_s:8.3f} s  {text}" for at_s, text in sorted(parts))


def _record(publication: Publication) -> str:
    place = f"{publication.topic}/{publication.partition}"
    if publication.heartbeat is not None:
        return f"{place} heartbeat {publication.heartbeat}"
    value = (publication.value or b"").decode(errors="replace")
    return f"{place} {publication.op or '+'} {value} at instant {publication.ts}"
