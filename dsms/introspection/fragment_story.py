"""The story of a fragment in English: one line an event, over all executors that have run the fragment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from connectors.alarms import Alarms
from dsms.runtime.fragment.story import EntryKind, Story, StoryEntry
from operators.core.decoding import Malformed, decoded

#: Kinds of entries whose queries are their subject: without a query that the caller may read, such an entry is hidden.
_ABOUT_QUERIES: frozenset[EntryKind] = frozenset(
    {
        "state taken over",
        "queries added",
        "queries dropped",
        "queries replaced",
        "queries paused",
        "queries resumed",
        "query failed",
        "query unplanned",
        "query rebuilt",
    }
)


def read_stories(bodies: Mapping[str, bytes], fragment: str, alarms: Alarms) -> dict[str, Story]:
    """The stories of a fragment, by executor. An invalid one is left out, with an alarm."""
    stories: dict[str, Story] = {}
    for executor, body in bodies.items():
        place = f"story:{fragment}:{executor}"
        try:
            stories[executor] = decoded(body, Story, "msgpack")
            alarms.clear(place)
        except Malformed as error:
            alarms.raise_at(place, str(error))
    return stories


def story_documents(stories: Mapping[str, Story], last: int) -> list[dict[str, Any]]:
    """The last entries of the stories of a fragment, by executor, as documents in the order of time."""
    entries = ((entry, executor) for executor, story in stories.items() for entry in story.entries)
    ordered = sorted(entries, key=lambda pair: pair[0].until or pair[0].at)
    return [_document(entry, executor) for entry, executor in ordered[-last:]]


def _document(entry: StoryEntry, executor: str) -> dict[str, Any]:
    fields = msgspec.to_builtins(entry)
    del fields["kind"]
    times = {name: _time(fields[name]) for name in ("at", "until") if name in fields}
    return {"at": "", "executor": executor, "event": entry.kind, **fields, **times, "text": sentence(entry)}


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def readable_story(story: Story, may_read: Callable[[str], bool]) -> Story:
    """The story without the names of queries that may not be read, and without reasons that may contain other names.

    >>> failed = StoryEntry("query failed", 1.0, queries=("theirs",), reason="1 / 0")
    >>> started = StoryEntry("started", 0.0, queries=("mine", "theirs"))
    >>> [entry.queries for entry in readable_story(Story((started, failed)), lambda name: name == "mine").entries]
    [('mine',)]
    """
    seen = (_readable(entry, may_read) for entry in story.entries)
    return Story(tuple(entry for entry in seen if entry.queries or entry.kind not in _ABOUT_QUERIES))


def _readable(entry: StoryEntry, may_read: Callable[[str], bool]) -> StoryEntry:
    queries = tuple(filter(may_read, entry.queries))
    reason = entry.reason if queries and entry.kind in _ABOUT_QUERIES else ""
    return msgspec.structs.replace(entry, queries=queries, others=0, reason=reason)


def sentence(entry: StoryEntry) -> str:
    """What happened and what followed from it.

    >>> times = {"seconds": 0.5, "commit_seconds": 0.1}
    >>> sentence(StoryEntry("epoch committed", 0.0, epoch=8, plan_version=3, records=1200, **times))
    'epoch 8 of plan 3 committed: 1,200 records, computed in 0.50 s, committed in 0.10 s'
    >>> sentence(StoryEntry("stopped", 0.0, until=9.0, count=4, reason="the executor ends"))
    'stopped: the executor ends (4 times, the last time at 1970-01-01T00:00:09+00:00)'
    """
    text = _SENTENCES[entry.kind](entry) + (f": {entry.reason}" if entry.reason else "")
    if entry.count == 1 or entry.kind == "epoch committed":
        return text
    return f"{text} ({entry.count} times, the last time at {_time(entry.until)})"


def _committed(entry: StoryEntry) -> str:
    times = f"computed in {entry.seconds:,.2f} s, committed in {entry.commit_seconds:,.2f} s"
    what = f"{_records(entry)}, {times}"
    if entry.first_epoch:
        return f"epochs {entry.first_epoch} to {entry.epoch} committed until {_time(entry.until)}: {what}"
    doubt = "; kafka's answer to the commit was lost, and reading back showed that it had succeeded"
    return f"epoch {entry.epoch} of plan {entry.plan_version} committed: {what}{doubt if entry.in_doubt else ''}"


def _claimed(entry: StoryEntry) -> str:
    begins = f"it continues after epoch {entry.epoch}" if entry.epoch else "it begins at the start of its logs"
    return f"claimed under lease {entry.lease}; {begins}"


def _batches(entry: StoryEntry) -> str:
    least, most, seconds = entry.bounds or (0, 0, 0.0)
    return f"{least:,} to {most:,} records in about {seconds:g} s"


def _records(entry: StoryEntry) -> str:
    return "1 record" if entry.records == 1 else f"{entry.records:,} records"


def _queries(entry: StoryEntry) -> str:
    quoted, more = ", ".join(f'"{name}"' for name in entry.queries), f" and {entry.others} more" if entry.others else ""
    return f"{'query' if len(entry.queries) == 1 and not more else 'queries'} {quoted}{more}" if quoted else "no query"


def _follows(change: str) -> Callable[[StoryEntry], str]:
    return lambda entry: f"follows plan {entry.plan_version}, which {change} {_queries(entry)}"


_SENTENCES: dict[EntryKind, Callable[[StoryEntry], str]] = {
    "claimed": _claimed,
    "state restored": lambda entry: f"its state was restored from a checkpoint, that of epoch {entry.epoch}",
    "state rebuilt": lambda _: "its state is rebuilt from the logs",
    "state taken over": lambda entry: f"took over the state of {_queries(entry)} from another fragment",
    "started": lambda entry: f"started with plan {entry.plan_version}: runs {_queries(entry)}",
    "queries added": _follows("adds"),
    "queries dropped": _follows("drops"),
    "queries replaced": _follows("replaces"),
    "queries paused": _follows("pauses"),
    "queries resumed": _follows("resumes"),
    "batches smaller": lambda entry: f"smaller batches from now on: {_batches(entry)}",
    "bounds changed": lambda entry: f"new bounds of batches and state: batches of {_batches(entry)}",
    "batch begun": lambda _: "began to read and compute a batch",
    "epoch computed": lambda entry: (
        f"epoch {entry.epoch} of plan {entry.plan_version} computed: {_records(entry)} in {entry.seconds:,.2f} s; "
        "its commit begins"
    ),
    "epoch committed": _committed,
    "query failed": lambda entry: f"{_queries(entry)} failed and stops; the others continue",
    "query unplanned": lambda entry: f"{_queries(entry)} cannot be planned and does not run",
    "query rebuilt": lambda entry: f"the state of {_queries(entry)} is rebuilt from the logs",
    "workers died": lambda entry: "Spark workers died" + _search(entry),
    "workers survived": lambda entry: f"Spark workers survived a trial of {_queries(entry)}; the search goes on",
    "failed": lambda _: "failed, and starts again from its last committed epoch",
    "fenced": lambda _: "fenced: a newer executor has taken the fragment over, so it stops here",
    "stopped": lambda _: "stopped",
}


def _search(entry: StoryEntry) -> str:
    return f"; to find the query that kills them, now runs only {_queries(entry)}" if entry.queries else ""
