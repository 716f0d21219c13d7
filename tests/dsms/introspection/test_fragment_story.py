"""The story of a fragment in English, of several executors, and for a principal with restrictions."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest

from connectors.alarms import Alarms
from dsms.introspection.fragment_story import read_stories, readable_story, sentence, story_documents
from dsms.runtime.fragment.story import EntryKind, Story, StoryEntry

SENTENCES = [
    (StoryEntry("claimed", 0.0, lease=7, epoch=41), "claimed under lease 7; it continues after epoch 41"),
    (StoryEntry("claimed", 0.0, lease=7), "claimed under lease 7; it begins at the start of its logs"),
    (
        StoryEntry("state restored", 0.0, epoch=3, reason="Redis has lost a part of the state"),
        "its state was restored from a checkpoint, that of epoch 3: Redis has lost a part of the state",
    ),
    (
        StoryEntry("state rebuilt", 0.0, reason="Redis has no state of it"),
        "its state is rebuilt from the logs: Redis has no state of it",
    ),
    (
        StoryEntry("state taken over", 0.0, queries=("c",)),
        'took over the state of query "c" from another fragment',
    ),
    (StoryEntry("started", 0.0, plan_version=2, queries=("a", "b")), 'started with plan 2: runs queries "a", "b"'),
    (
        StoryEntry("started", 0.0, plan_version=2, queries=("a",), others=7),
        'started with plan 2: runs queries "a" and 7 more',
    ),
    (StoryEntry("started", 0.0, plan_version=1), "started with plan 1: runs no query"),
    (StoryEntry("queries added", 0.0, plan_version=3, queries=("c",)), 'follows plan 3, which adds query "c"'),
    (StoryEntry("queries dropped", 0.0, plan_version=3, queries=("c",)), 'follows plan 3, which drops query "c"'),
    (StoryEntry("queries replaced", 0.0, plan_version=3, queries=("c",)), 'follows plan 3, which replaces query "c"'),
    (StoryEntry("queries paused", 0.0, plan_version=3, queries=("c",)), 'follows plan 3, which pauses query "c"'),
    (StoryEntry("queries resumed", 0.0, plan_version=3, queries=("c",)), 'follows plan 3, which resumes query "c"'),
    (
        StoryEntry("batches smaller", 0.0, bounds=(62, 6250, 1.0)),
        "smaller batches from now on: 62 to 6,250 records in about 1 s",
    ),
    (
        StoryEntry("bounds changed", 0.0, bounds=(1, 9000, 0.5)),
        "new bounds of batches and state: batches of 1 to 9,000 records in about 0.5 s",
    ),
    (StoryEntry("batch begun", 0.0), "began to read and compute a batch"),
    (
        StoryEntry("epoch computed", 0.0, epoch=8, plan_version=3, records=1, seconds=0.5),
        "epoch 8 of plan 3 computed: 1 record in 0.50 s; its commit begins",
    ),
    (
        StoryEntry("epoch committed", 0.0, epoch=8, plan_version=3, seconds=1.0, commit_seconds=0.1, in_doubt=True),
        "epoch 8 of plan 3 committed: 0 records, computed in 1.00 s, committed in 0.10 s; kafka's answer to the "
        "commit was lost, and reading back showed that it had succeeded",
    ),
    (
        StoryEntry("epoch committed", 0.0, until=60.0, count=8, first_epoch=1, epoch=8, records=12_000, seconds=4.0),
        "epochs 1 to 8 committed until 1970-01-01T00:01:00+00:00: 12,000 records, computed in 4.00 s, "
        "committed in 0.00 s",
    ),
    (
        StoryEntry("query failed", 0.0, queries=("c",), reason="1 / 0"),
        'query "c" failed and stops; the others continue: 1 / 0',
    ),
    (
        StoryEntry("query unplanned", 0.0, queries=("c",), reason="no such function"),
        'query "c" cannot be planned and does not run: no such function',
    ),
    (StoryEntry("query rebuilt", 0.0, queries=("c",)), 'the state of query "c" is rebuilt from the logs'),
    (
        StoryEntry("workers died", 0.0, queries=("a", "b")),
        'Spark workers died; to find the query that kills them, now runs only queries "a", "b"',
    ),
    (StoryEntry("workers died", 0.0), "Spark workers died"),
    (
        StoryEntry("workers survived", 0.0, queries=("a",)),
        'Spark workers survived a trial of query "a"; the search goes on',
    ),
    (
        StoryEntry("failed", 0.0, until=9.0, count=4, reason="kafka does not answer"),
        "failed, and starts again from its last committed epoch: kafka does not answer "
        "(4 times, the last time at 1970-01-01T00:00:09+00:00)",
    ),
    (
        StoryEntry("fenced", 0.0, reason="it was replaced"),
        "fenced: a newer executor has taken the fragment over, so it stops here: it was replaced",
    ),
    (StoryEntry("stopped", 0.0, reason="the executor ends"), "stopped: the executor ends"),
]


@pytest.mark.parametrize(("entry", "text"), SENTENCES)
def test_each_event_is_a_sentence(entry: StoryEntry, text: str) -> None:
    assert sentence(entry) == text


def test_the_sentences_above_are_of_every_kind_of_event() -> None:
    assert {entry.kind for entry, _ in SENTENCES} == set(get_args(EntryKind))


STORIES = {
    "one": Story(
        (StoryEntry("claimed", 1.0, lease=7), StoryEntry("failed", 2.0, until=8.0, count=3), StoryEntry("fenced", 9.0))
    ),
    "two": Story(
        (StoryEntry("claimed", 8.5, lease=8), StoryEntry("started", 10.0, plan_version=3, queries=("mine", "theirs")))
    ),
}


def test_the_stories_of_all_executors_are_one_in_the_order_of_time() -> None:
    told = [(document["executor"], document["event"]) for document in story_documents(STORIES, 300)]
    assert told == [("one", "claimed"), ("one", "failed"), ("two", "claimed"), ("one", "fenced"), ("two", "started")]
    assert story_documents(STORIES, 1) == [
        {
            "at": "1970-01-01T00:00:10+00:00",
            "executor": "two",
            "event": "started",
            "plan_version": 3,
            "queries": ("mine", "theirs"),
            "text": 'started with plan 3: runs queries "mine", "theirs"',
        }
    ]


def test_a_restricted_principal_sees_own_queries_and_no_reasons_that_name_others() -> None:
    story = Story(
        (
            StoryEntry("started", 1.0, queries=("mine", "theirs"), others=3),
            StoryEntry("queries paused", 2.0, queries=("theirs",)),
            StoryEntry("query failed", 3.0, queries=("mine",), reason="1 / 0"),
            StoryEntry("query failed", 4.0, queries=("theirs",), reason="their reason"),
            StoryEntry("failed", 5.0, reason='topic "theirs" is gone'),
        )
    )
    seen = readable_story(story, lambda name: name == "mine")
    assert seen.entries == (
        StoryEntry("started", 1.0, queries=("mine",)),
        StoryEntry("query failed", 3.0, queries=("mine",), reason="1 / 0"),
        StoryEntry("failed", 5.0),
    )


def test_an_invalid_story_is_left_out_with_an_alarm() -> None:
    alarms = Alarms()
    stories = read_stories({"one": msgspec.msgpack.encode(STORIES["one"]), "two": b"\xc1"}, "0", alarms)
    assert stories == {"one": STORIES["one"]}
    assert [alarm.place for alarm in alarms.all()] == ["story:0:two"]
