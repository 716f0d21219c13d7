"""Draws what users change while a service runs: queries that are dropped and created again, replaced, paused and
altered; topics that are deleted and created again, and topics with more partitions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from dsms.simulation.history import AddedPartitions, RecreatedTopic, Statement
from tests.algebra.cases import Case

#: The ways to change a service, and how often each is drawn.
_WAYS = {"": 8, "again": 5, "all again": 3, "replaced": 5, "paused": 2, "altered": 1, "partitions": 2}
#: The ways that belong to a theme.
_OF_THEMES = {
    "recreated": {"again": 2, "all again": 1},
    "replaced": {"replaced": 1},
    "late commits": {"": 1},
    "lost commits": {"": 1},
    "silent": {"": 1},
    "divided": {"": 2, "paused": 1},
}
#: The seconds between which something changes: records are sent before and after.
_BETWEEN_S = (6.0, 26.0)
_CREATE = "CREATE STREAMED VIEW Q AS "
#: The alias and the first column of the outermost query.
_OUTERMOST = re.compile(r"SELECT (?:STREAMED |\w+\()?(\w+)\.(\w+)")


@dataclass(frozen=True)
class Changes:
    """Statements and changes of topics. `moments` are the times at which a fault is most interesting."""

    statements: tuple[Statement, ...] = ()
    added: tuple[AddedPartitions, ...] = ()
    recreated: tuple[RecreatedTopic, ...] = ()

    @property
    def moments(self) -> list[float]:
        """When something changes."""
        return [each.at_s for each in (*self.statements, *self.added, *self.recreated)]


def changes(case: Case, inputs: Sequence[str], topics: Mapping[str, int], chance: Random, theme: str) -> Changes:
    """Changes of a case's query after its creation. `inputs` are the statements that declare its sources and streams,
    `topics` the partitions of their topics."""
    ways = _OF_THEMES.get(theme, _WAYS)
    (way,) = chance.choices(list(ways), list(ways.values()))
    times = sorted(chance.uniform(*_BETWEEN_S) for _ in range(chance.choice([1, 1, 2])))
    views = [*case.statements[len(case.inputs) :]]
    match way:
        case "again":
            return Changes(tuple(each for at_s in times for each in _again(at_s, views[-1:], chance)))
        case "all again":
            return _all_again(times[0], [*inputs, *views], list(topics), chance)
        case "replaced":
            return Changes(tuple(_replaced(at_s, case, chance) for at_s in times))
        case "paused":
            later_s = times[0] + chance.uniform(0.1, 10)
            return Changes((Statement(times[0], "PAUSE QUERY Q"), Statement(later_s, "RESUME QUERY Q")))
        case "altered":
            return Changes((Statement(times[0], "ALTER QUERY Q SET (weight = 2.5)"),))
        case "partitions":
            topic = chance.choice(sorted(topics))
            return Changes(added=(AddedPartitions(times[0], topic, topics[topic] + 1),))
    return Changes()


def _again(at_s: float, views: Sequence[str], chance: Random) -> Iterator[Statement]:
    yield Statement(at_s, "DROP VIEW Q")
    created_s = at_s + chance.choice([0.01, 0.3, 2])
    for number, sql in enumerate(views):
        yield Statement(created_s + number / 100, sql)


def _all_again(at_s: float, statements: Sequence[str], topics: Sequence[str], chance: Random) -> Changes:
    """Drops everything, deletes topics and creates them again, then creates everything again. The topics are deleted
    before or after their sources are dropped."""
    dropped = [
        Statement(at_s + number / 100, f"DROP SOURCE IF EXISTS {topic.upper()} CASCADE")
        for number, topic in enumerate(topics)
    ]
    deleted_s = at_s + chance.choice([-0.5, -0.05, 0.2])
    chosen = [topic for topic in topics if chance.random() < 0.7]
    created_s = at_s + chance.choice([0.3, 2])
    created = [Statement(created_s + number / 100, sql) for number, sql in enumerate(statements)]
    return Changes((*dropped, *created), recreated=tuple(RecreatedTopic(deleted_s, topic) for topic in chosen))


def _replaced(at_s: float, case: Case, chance: Random) -> Statement:
    """Replaces the query by one with fewer rows, or by itself."""
    sql = case.statements[-1]
    found = _OUTERMOST.match(sql.removeprefix(_CREATE))
    if found is not None and chance.random() < 0.8:
        alias, column = found.groups()
        condition = chance.choice([f"{alias}.{column} IS NOT NULL", f"{alias}.{column} = {alias}.{column}", "1 = 0"])
        sql = f"{sql} WHERE {condition}"
    return Statement(at_s, sql.replace("CREATE ", "CREATE OR REPLACE ", 1))
