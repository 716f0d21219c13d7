"""The story of a fragment: its last events with the decisions that they led to, as one frozen value.

Executors keep it in memory and publish it; `dsms.introspection.fragment_story` writes it in English.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import singledispatch
from typing import Literal, Self

import msgspec

from dsms.planner.physical.fragment_plan import FragmentPlan
from dsms.runtime.epoch.epoch import Epoch
from dsms.runtime.fragment.state import (
    EpochComputed,
    Event,
    FragmentState,
    Instruction,
    PlanChanged,
    ReportFailure,
    ReportRebuild,
    TunableSettingsChanged,
)
from operators.core.decoding import Natural

#: The most entries of a story, so that it stays small: about 30 kB.
MAX_ENTRIES = 300
#: The most names of queries, and the most characters of a reason, in an entry.
MAX_NAMES, MAX_CHARACTERS = 20, 400

EntryKind = Literal[
    "claimed",  # an executor has claimed the fragment
    "state restored",  # its state was lost, and was restored from a checkpoint
    "state rebuilt",  # its state was lost, and is rebuilt from the logs
    "state taken over",  # it has the state of queries that have moved to it
    "started",  # its streaming query has started
    "queries added",  # a new plan adds, drops, replaces, pauses or resumes queries
    "queries dropped",
    "queries replaced",
    "queries paused",
    "queries resumed",
    "batches smaller",  # its tunable settings have changed, and batches are smaller
    "bounds changed",  # its tunable settings have changed otherwise
    "batch begun",
    "epoch computed",
    "epoch committed",
    "query failed",
    "query unplanned",  # a query cannot be planned, so it does not run
    "query rebuilt",  # the state of one query is rebuilt from the logs
    "workers died",  # the query that kills the Spark workers is searched for
    "workers survived",
    "failed",  # it has stopped because of an error, and restarts
    "fenced",  # a newer executor has taken it over
    "stopped",
]


class StoryEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """An event, with the time in seconds since 1970. Equal events in a row are one entry with their `count` and
    the time `until` which they happened."""

    kind: EntryKind
    at: float
    until: float = 0.0
    count: Natural = 1
    #: The epoch; in an entry for several epochs, the last one and the first one.
    epoch: Natural = 0
    first_epoch: Natural = 0
    plan_version: Natural = 0
    lease: Natural = 0
    #: The records that the epoch read, and how many seconds it was computed and committed.
    records: Natural = 0
    seconds: float = 0.0
    commit_seconds: float = 0.0
    #: Whether Kafka's answer to the commit was lost, so that the commit was read back.
    in_doubt: bool = False
    #: The names of the queries that the event is about, at most `MAX_NAMES`, and the number of the others.
    queries: tuple[str, ...] = ()
    others: Natural = 0
    #: Why it happened, as one line of at most `MAX_CHARACTERS`.
    reason: str = ""
    #: The least and the most records of a batch, and its target duration in seconds.
    bounds: tuple[int, int, float] | None = None


class Story(msgspec.Struct, frozen=True):
    """The last events of a fragment on one executor, oldest first.

    The entry of an epoch takes the place of those about its earlier steps. If there are too many entries, the oldest
    epochs that follow each other become one entry, so that rare events are kept for long.

    >>> story = Story().after(StoryEntry("batch begun", 1.0), StoryEntry("epoch computed", 2.0, epoch=7))
    >>> [entry.kind for entry in story.after(StoryEntry("epoch committed", 3.0, epoch=7)).entries]
    ['epoch committed']
    """

    entries: tuple[StoryEntry, ...] = ()

    def after(self, *events: StoryEntry) -> Story:
        """The story after some more events."""
        entries = list(self.entries)
        for event in events:
            _add(entries, _limited(event))
        while len(entries) > MAX_ENTRIES:
            _shorten(entries)
        return Story(tuple(entries))

    def followed_by(self, later: Self) -> Story:
        """This story, continued by a later one."""
        return Story((*self.entries, *later.entries)).after()


def _limited(event: StoryEntry) -> StoryEntry:
    """The entry with a bounded size."""
    reason, more = " ".join(event.reason.split()), len(event.queries) - MAX_NAMES
    if len(reason) > MAX_CHARACTERS:
        reason = reason[: MAX_CHARACTERS - 1] + "…"
    if reason == event.reason and more <= 0:
        return event
    queries, others = event.queries[:MAX_NAMES], event.others + max(more, 0)
    return msgspec.structs.replace(event, reason=reason, queries=queries, others=others)


def _add(entries: list[StoryEntry], event: StoryEntry) -> None:
    """Adds an event. Removes the entries about earlier steps of the same epoch in the same incarnation."""
    if event.kind == "epoch computed":
        _remove_first(entries, "batch begun", 0)
    if event.kind == "epoch committed":
        _remove_first(entries, "epoch computed", event.epoch)
    if entries and _same(entries[-1], event):
        entries[-1] = msgspec.structs.replace(entries[-1], count=entries[-1].count + event.count, until=event.at)
    else:
        entries.append(event)


def _remove_first(entries: list[StoryEntry], kind: EntryKind, epoch: int) -> None:
    since = next((at for at in reversed(range(len(entries))) if entries[at].kind == "claimed"), 0)
    found = (at for at in range(since, len(entries)) if entries[at].kind == kind and entries[at].epoch == epoch)
    if (place := next(found, None)) is not None:
        del entries[place]


def _same(last: StoryEntry, event: StoryEntry) -> bool:
    """Whether an event repeats the last one, apart from the time. Batches that begin are not joined: each
    becomes an epoch of its own."""
    return (
        event.kind != "batch begun"
        and msgspec.structs.replace(last, at=event.at, until=0.0, count=event.count) == event
    )


def _shorten(entries: list[StoryEntry]) -> None:
    """Joins the first two entries about committed epochs that follow each other; without such a pair, removes the first
    entry."""
    pairs = zip(range(len(entries)), entries, entries[1:], strict=False)
    for at, first, second in pairs:
        if first.kind == second.kind == "epoch committed" and not (first.in_doubt or second.in_doubt):
            entries[at : at + 2] = [_joined(first, second)]
            return
    del entries[0]


def _joined(first: StoryEntry, second: StoryEntry) -> StoryEntry:
    return msgspec.structs.replace(
        second,
        at=first.at,
        until=second.at,
        count=first.count + second.count,
        first_epoch=first.first_epoch or first.epoch,
        records=first.records + second.records,
        seconds=first.seconds + second.seconds,
        commit_seconds=first.commit_seconds + second.commit_seconds,
    )


def without_unused_batch(story: Story) -> Story:
    """The story without the last batch that has begun: the batch was read ahead and could not be used."""
    begun = [at for at, entry in enumerate(story.entries) if entry.kind == "batch begun"]
    return Story(story.entries[: begun[-1]] + story.entries[begun[-1] + 1 :]) if begun else story


def entries_of(
    event: Event, before: FragmentState, instructions: Iterable[Instruction], at: float
) -> tuple[StoryEntry, ...]:
    """The entries for an event of a fragment's state machine and for the instructions that followed. `before` is the
    state before the event, `at` the time in seconds since 1970."""
    reports = (_report(instruction, at) for instruction in instructions)
    return (*_entries(event, before, at), *(entry for entry in reports if entry is not None))


@singledispatch
def _entries(event: Event, before: FragmentState, at: float) -> tuple[StoryEntry, ...]:
    return ()


@_entries.register
def _(event: EpochComputed, before: FragmentState, at: float) -> tuple[StoryEntry, ...]:
    manifest, seconds = event.epoch.manifest, sum(step.seconds for step in event.epoch.steps)
    records, version = event.epoch.measured.records, manifest.plan_version
    return (
        StoryEntry("epoch computed", at, epoch=manifest.epoch, plan_version=version, records=records, seconds=seconds),
    )


@_entries.register
def _(event: TunableSettingsChanged, before: FragmentState, at: float) -> tuple[StoryEntry, ...]:
    tunable = event.tunable
    smaller = tunable.max_batch_records < before.tunable.max_batch_records
    given = tunable.min_batch_records, tunable.max_batch_records, tunable.target_batch_seconds
    return (StoryEntry("batches smaller" if smaller else "bounds changed", at, bounds=given),)


@_entries.register
def _(event: PlanChanged, before: FragmentState, at: float) -> tuple[StoryEntry, ...]:
    return tuple(
        StoryEntry(kind, at, plan_version=event.plan.version, queries=tuple(sorted(names)))
        for kind, names in _plan_changes(before.plan, event.plan).items()
        if names
    )


def _plan_changes(before: FragmentPlan, after: FragmentPlan) -> Mapping[EntryKind, Collection[str]]:
    """The names of the queries that differ between two plans. Next plans of queries are left out."""
    old, new = _stopped_by_id(before), _stopped_by_id(after)
    added = {name for id, (name, _) in new.items() if id not in old}
    dropped = {name for id, (name, _) in old.items() if id not in new}
    both = [(name, old[id][1], stopped) for id, (name, stopped) in new.items() if id in old]
    return {
        "queries dropped": dropped - added,
        "queries added": added - dropped,
        "queries replaced": added & dropped,
        "queries paused": {name for name, was, stopped in both if stopped and not was},
        "queries resumed": {name for name, was, stopped in both if was and not stopped},
    }


def _stopped_by_id(plan: FragmentPlan) -> dict[str, tuple[str, bool]]:
    """The names of the queries of a plan, and whether they are stopped, by id."""
    return {id: (query.name, query.stopped) for id, query in plan.queries.items() if query.next_of is None}


def _report(instruction: Instruction, at: float) -> StoryEntry | None:
    match instruction:
        case ReportFailure(query, reason):
            return StoryEntry("query failed", at, queries=(query,), reason=reason)
        case ReportRebuild(query):
            return StoryEntry("query rebuilt", at, queries=(query,))
    return None


def committed(epoch: Epoch, at: float, seconds: float, *, in_doubt: bool) -> StoryEntry:
    """The entry of an epoch whose commit took some seconds."""
    return StoryEntry(
        "epoch committed",
        at,
        epoch=epoch.manifest.epoch,
        plan_version=epoch.manifest.plan_version,
        records=epoch.measured.records,
        seconds=sum(step.seconds for step in epoch.steps),
        commit_seconds=seconds,
        in_doubt=in_doubt,
    )
