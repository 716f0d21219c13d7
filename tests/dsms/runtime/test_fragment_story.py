"""The story of a fragment: which events it holds, and that it stays short."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from dsms.measurements.work import FragmentMetrics
from dsms.planner.physical.fragment_plan import FragmentPlan, plan_fragment
from dsms.runtime.batching.batch_size import BatchSize
from dsms.runtime.epoch.epoch import Epoch, EpochMeasurements
from dsms.runtime.epoch.progress_log import Published
from dsms.runtime.epoch.step_time import StepTime
from dsms.runtime.fragment.state import EpochComputed, FragmentState, PlanChanged, TunableSettingsChanged, advance
from dsms.runtime.fragment.story import (
    MAX_ENTRIES,
    EntryKind,
    Story,
    StoryEntry,
    committed,
    entries_of,
    without_unused_batch,
)
from dsms.runtime.lanes.manifest import Manifest
from dsms.scheduling.tuning import TunableSettings
from tests.support.fake_environment import FakeEnvironment, apply_all

SQL = (
    "REGISTER SOURCE T (k INT) FROM t; CREATE STREAM S OVER T KEY k;"
    "CREATE STREAMED VIEW V AS SELECT k FROM S; CREATE QUERY W AS SELECT k FROM S WHERE k > 1;"
)
BOUNDS = TunableSettings(10, 1000, 1.0)


def plan(changes: str = "") -> FragmentPlan:
    environment = FakeEnvironment({"t": {0: 0}})
    return plan_fragment(apply_all(changes, apply_all(SQL, environment=environment)[0], environment=environment)[0], 1)


def state_with(plan: FragmentPlan) -> FragmentState:
    size = BatchSize(100, 10, 1000, 1.0, 3.0)
    state = FragmentState(plan, Manifest(targets=1), Published({}, {}), BOUNDS, size, FragmentMetrics(0.0))
    return advance(PlanChanged(plan, 1.0), state)[0]


def kinds(story: Story) -> list[str]:
    return [entry.kind for entry in story.entries]


def done(epoch: int, **fields: object) -> StoryEntry:
    return msgspec.structs.replace(StoryEntry("epoch committed", float(epoch), epoch=epoch, records=10), **fields)


@pytest.mark.parametrize(
    ("statement", "kind", "queries"),
    [
        ("CREATE QUERY X AS SELECT k FROM S WHERE k > 2", "queries added", ("X",)),
        ("DROP QUERY W", "queries dropped", ("W",)),
        ("DROP QUERY W; CREATE QUERY W AS SELECT k FROM S WHERE k > 3", "queries replaced", ("W",)),
        ("PAUSE QUERY W", "queries paused", ("W",)),
    ],
)
def test_a_plan_tells_which_queries_it_changes(statement: str, kind: EntryKind, queries: tuple[str, ...]) -> None:
    before, after = plan(), plan(statement)
    state = state_with(before)
    assert entries_of(PlanChanged(after, 2.0), state, (), 9.0) == (
        StoryEntry(kind, 9.0, plan_version=after.version, queries=queries),
    )


def test_a_plan_that_resumes_a_query_tells_it_and_one_that_changes_nothing_tells_nothing() -> None:
    paused, resumed = plan("PAUSE QUERY W"), plan("PAUSE QUERY W; RESUME QUERY W")
    (entry,) = entries_of(PlanChanged(resumed, 2.0), state_with(paused), (), 9.0)
    assert (entry.kind, entry.queries) == ("queries resumed", ("W",))
    same = replace(resumed, version=resumed.version + 1)
    assert entries_of(PlanChanged(same, 3.0), state_with(resumed), (), 9.0) == ()


def test_an_epoch_tells_its_records_and_duration_and_what_failed_in_it() -> None:
    state = state_with(plan())
    (failing,) = (query for query, planned in state.plan.queries.items() if planned.name == "W")
    manifest = msgspec.structs.replace(state.revision.manifest, epoch=1, plan_version=4)
    steps = StepTime("compute", 1.0, 1.5), StepTime("assemble", 2.0, 2.25)
    epoch = Epoch(manifest, {}, (), (), {}, failures={failing: "1 / 0"}, measured=EpochMeasurements(120), steps=steps)
    event = EpochComputed(epoch, state.revision)
    _, instructions = advance(event, state)
    assert entries_of(event, state, instructions, 9.0) == (
        StoryEntry("epoch computed", 9.0, epoch=1, plan_version=4, records=120, seconds=0.75),
        StoryEntry("query failed", 9.0, queries=("W",), reason="1 / 0"),
    )
    assert committed(epoch, 10.0, 0.1, in_doubt=True) == StoryEntry(
        "epoch committed", 10.0, epoch=1, plan_version=4, records=120, seconds=0.75, commit_seconds=0.1, in_doubt=True
    )


def test_bounds_tell_whether_batches_get_smaller() -> None:
    state = state_with(plan())
    told = {
        bounds: entries_of(TunableSettingsChanged(bounds), state, (), 9.0)
        for bounds in (TunableSettings(1, 62, 1.0), TunableSettings(1, 2000, 0.5))
    }
    assert [(entry.kind, entry.bounds) for (entry,) in told.values()] == [
        ("batches smaller", (1, 62, 1.0)),
        ("bounds changed", (1, 2000, 0.5)),
    ]


def test_an_epoch_is_one_entry_also_while_the_next_batch_is_read() -> None:
    story = Story().after(
        StoryEntry("batch begun", 1.0),
        StoryEntry("batch begun", 2.0),
        StoryEntry("epoch computed", 3.0, epoch=1),
        StoryEntry("epoch computed", 4.0, epoch=2),
        done(1),
    )
    assert kinds(story) == ["epoch computed", "epoch committed"]
    assert [entry.epoch for entry in story.entries] == [2, 1]
    assert kinds(story.after(done(2))) == ["epoch committed"] * 2


def test_two_batches_that_have_begun_stay_two() -> None:
    story = Story().after(
        StoryEntry("batch begun", 1.0), StoryEntry("batch begun", 2.0), StoryEntry("epoch computed", 3.0, epoch=1)
    )
    assert kinds(story) == ["batch begun", "epoch computed"]


def test_an_epoch_that_was_not_committed_stays_in_the_story() -> None:
    """The next incarnation computes the epoch again; the batch and the commit that failed remain visible."""
    story = Story().after(
        StoryEntry("epoch computed", 1.0, epoch=1),
        StoryEntry("batch begun", 1.5),
        StoryEntry("failed", 2.0, reason="kafka does not answer"),
        StoryEntry("claimed", 3.0, lease=7),
        StoryEntry("epoch computed", 4.0, epoch=1),
        done(1),
    )
    assert kinds(story) == ["epoch computed", "batch begun", "failed", "claimed", "epoch committed"]


def test_a_batch_that_could_not_be_used_is_forgotten() -> None:
    story = Story().after(
        StoryEntry("started", 0.0),
        StoryEntry("batch begun", 1.0),
        StoryEntry("failed", 2.0),
        StoryEntry("batch begun", 3.0),
    )
    assert kinds(without_unused_batch(story)) == ["started", "batch begun", "failed"]
    assert without_unused_batch(Story()) == Story()


def test_equal_events_in_a_row_are_one_entry() -> None:
    story = Story().after(
        *(StoryEntry("failed", float(at), reason="gone") for at in range(4)), StoryEntry("failed", 5.0, reason="other")
    )
    assert story.entries == (
        StoryEntry("failed", 0.0, until=3.0, count=4, reason="gone"),
        StoryEntry("failed", 5.0, reason="other"),
    )


def test_a_long_story_joins_its_oldest_epochs_and_keeps_rare_events() -> None:
    story = Story().after(StoryEntry("claimed", 0.0, lease=7), StoryEntry("started", 0.5))
    for epoch in range(1, 1001):
        story = story.after(done(epoch, seconds=0.5, commit_seconds=0.25))
    assert len(story.entries) == MAX_ENTRIES
    assert kinds(story)[:3] == ["claimed", "started", "epoch committed"]
    oldest = story.entries[2]
    first, last = 1, 1000 - (MAX_ENTRIES - 3)
    assert (oldest.first_epoch, oldest.epoch, oldest.at, oldest.until) == (first, last, 1.0, float(last))
    assert (oldest.records, oldest.count) == (10 * last, last)
    assert (oldest.seconds, oldest.commit_seconds) == (0.5 * last, 0.25 * last)
    assert story.entries[-1] == done(1000, seconds=0.5, commit_seconds=0.25)


def test_a_commit_in_doubt_is_not_joined_with_others() -> None:
    story = Story().after(*(done(epoch, in_doubt=epoch == 2) for epoch in range(1, MAX_ENTRIES + 50)))
    assert [(entry.first_epoch, entry.epoch) for entry in story.entries[:3]] == [(0, 1), (0, 2), (3, 52)]


def test_a_story_without_epochs_forgets_its_oldest_entries() -> None:
    story = Story().after(*(StoryEntry("failed", float(at), reason=str(at)) for at in range(MAX_ENTRIES + 5)))
    assert len(story.entries) == MAX_ENTRIES and story.entries[0].reason == "5"


def test_a_story_continues_another_one_and_stays_short() -> None:
    earlier = Story().after(*(done(epoch) for epoch in range(1, MAX_ENTRIES + 1)))
    story = earlier.followed_by(Story().after(StoryEntry("claimed", 1e6, lease=8)))
    assert len(story.entries) == MAX_ENTRIES and kinds(story)[-1] == "claimed"
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(story), type=Story) == story
    assert len(msgspec.msgpack.encode(story)) < 30_000


def test_an_entry_has_a_bounded_size() -> None:
    names = tuple(f"q{at}" for at in range(25))
    (entry,) = Story().after(StoryEntry("started", 1.0, queries=names, reason="line 1\n  line 2" + "x" * 1000)).entries
    assert (entry.queries, entry.others) == (names[:20], 5)
    assert entry.reason.startswith("line 1 line 2xx") and entry.reason.endswith("x…") and len(entry.reason) == 400
