"""Which checkpoint is used, which ones are kept, and what is copied, with a store in a directory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from connectors.objects.store import ObjectStore
from dsms.runtime.checkpoints.checkpoint import (
    Checkpoint,
    Copy,
    CurrentLogs,
    Needs,
    Topic,
    behind,
    best_first,
    checkpoint_id,
    decode_checkpoint,
    encode_checkpoint,
    why_unusable,
)
from dsms.runtime.checkpoints.retention import Retention
from dsms.runtime.checkpoints.store import CheckpointStore, fragments
from dsms.runtime.epoch.progress_log import Published, WrittenDeadLetters
from dsms.runtime.lanes.manifest import LaneManifest, Manifest, Position
from operators.core.errors import ExternalError

LOGS = CurrentLogs("kafka-1", {"bids": "topic-1"}, {("bids", 0): 100})
NEEDS = Needs(["o2"], ["o1"])
PUBLISHED = Published({"o2": 50}, {("o1", 0): WrittenDeadLetters(40, 3)})


def manifest(offset: int = 40, *, targets: int = 2, queries: tuple[str, ...] = ("o2",), epoch: int = 7) -> Manifest:
    lane = LaneManifest(queries, {"o1": {0: Position(offset)}}, [{"v": [["7/a"]]}, {"v": [["7/b"]]}])
    return Manifest(epoch=epoch, lanes={queries[0]: lane}, targets=targets)


def made(state: Manifest | None = None, id: str = checkpoint_id(1, 7), created: float = 0.0) -> Checkpoint:
    return Checkpoint(
        id=id,
        cluster="c",
        fragment="0",
        created=created,
        kafka="kafka-1",
        topics={"o1": Topic("bids", "topic-1")},
        manifest=msgspec.Raw((state or manifest()).encode()),
        published={"o2": 50},
        dead=[("o1", 0, 40)],
        runs={},
        catalog=Copy("c/catalogs/x", 0, ""),
    )


def test_checkpoint_of_these_logs_is_usable() -> None:
    assert why_unusable(made(), LOGS, PUBLISHED, 2, NEEDS) is None
    later = Published({"o2": 60, "o3": 9}, {("o1", 0): WrittenDeadLetters(90, 5)})
    assert why_unusable(made(), LOGS, later, 2, NEEDS) is None, (
        "what was published since is left out when it is computed again"
    )


@pytest.mark.parametrize(
    ("logs", "published", "targets", "why"),
    [
        (LOGS, PUBLISHED, 3, "it was stored for 2 targets, not 3"),
        (replace(LOGS, kafka="kafka-2"), PUBLISHED, 2, 'it belongs to Kafka cluster "kafka-1", not "kafka-2"'),
        (replace(LOGS, topics={"bids": "topic-9"}), PUBLISHED, 2, 'topic "bids" was created again after it'),
        (replace(LOGS, topics={}), PUBLISHED, 2, 'topic "bids" does not exist'),
        (
            replace(LOGS, ends={("bids", 0): 39}),
            PUBLISHED,
            2,
            'it is at offset 40 of topic "bids" partition 0, which ends at 39',
        ),
        (LOGS, replace(PUBLISHED, frontiers={"o2": 49}), 2, "the progress log has lost how far query o2 has published"),
        (LOGS, replace(PUBLISHED, frontiers={}), 2, "the progress log has lost how far query o2 has published"),
        (
            LOGS,
            replace(PUBLISHED, dead={("o1", 0): WrittenDeadLetters(39, 3)}),
            2,
            "which dead letters of o1 are written",
        ),
    ],
)
def test_checkpoint_of_other_logs_is_a_misfit(logs: CurrentLogs, published: Published, targets: int, why: str) -> None:
    assert why in (why_unusable(made(), logs, published, targets, NEEDS) or "it fits")


def test_progress_of_dropped_or_replaced_queries_is_ignored() -> None:
    """The progress log has a record of the query that writes the topic now."""
    assert why_unusable(made(), LOGS, replace(PUBLISHED, frontiers={"o5": 60}), 2, Needs(["o5"], ["o1"])) is None


def test_the_topics_of_dropped_queries_do_not_matter() -> None:
    assert why_unusable(made(), replace(LOGS, topics={}, ends={}), PUBLISHED, 2, Needs(["o5"], ["o9"])) is None


def test_state_of_another_version_is_a_misfit() -> None:
    unreadable = msgspec.structs.replace(made(), manifest=msgspec.Raw(b'{"epoch": "?"}'))
    assert "another version" in (why_unusable(unreadable, LOGS, PUBLISHED, 2, NEEDS) or "")
    assert "in format 5, not 6" in (
        why_unusable(made(msgspec.structs.replace(manifest(), format=5)), LOGS, PUBLISHED, 2, NEEDS) or ""
    )


def test_checkpoint_with_the_fewest_records_to_reread_is_preferred() -> None:
    """Epoch numbers start again after Redis was lost, and a rebuild writes a newer checkpoint with less content."""
    full = made(manifest(90, epoch=500), checkpoint_id(1, 500))
    rebuilt = made(manifest(20, epoch=3), checkpoint_id(2, 3))
    again = made(manifest(90, epoch=9), checkpoint_id(2, 9))
    assert best_first([rebuilt, full, again], ["o2"]) == [again, full, rebuilt]


def test_positions_of_dropped_queries_do_not_count() -> None:
    dropped = made(manifest(95, queries=("o9",)), checkpoint_id(2, 1))
    assert best_first([dropped, made()], ["o2"])[0] == made()


def test_fragment_is_behind_if_any_query_or_partition_is() -> None:
    assert behind(manifest(39), manifest(40), ["o2"])
    assert not behind(manifest(40), manifest(40), ["o2"])
    assert not behind(manifest(40, queries=("o2", "o3")), manifest(40), ["o2", "o3"]), "a new query catches up"
    assert behind(manifest(50), manifest(40, queries=("o2", "o3")), ["o2", "o3"])
    assert not behind(manifest(39), manifest(40), []), "neither failed nor paused queries count"


def test_changed_documents_are_refused() -> None:
    document = encode_checkpoint(made())
    assert decode_checkpoint(document, "x") == made()
    with pytest.raises(ExternalError, match='checkpoint "x" is damaged: its checksum differs'):
        decode_checkpoint(document.replace(b'"kafka-1"', b'"kafka-2"'), "x")
    with pytest.raises(ExternalError, match='checkpoint "x" cannot be read'):
        decode_checkpoint(document[:-1], "x")


def test_retention_keeps_the_latest_and_youngest_checkpoints() -> None:
    all_of_them = [made(id=checkpoint_id(1, number), created=number * 10.0) for number in range(1, 6)]
    assert Retention(2).expired(all_of_them, 50) == all_of_them[2::-1]
    assert Retention(9, age_s=25).expired(all_of_them, 60) == all_of_them[2::-1]
    assert Retention(9, age_s=5).expired(all_of_them, 1e9) == all_of_them[3::-1], "the newest one stays"


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    return CheckpointStore(ObjectStore(str(tmp_path)), "c", "0")


def with_runs(store: CheckpointStore, number: int, **runs: bytes) -> Checkpoint:
    """Writes a checkpoint; copies its runs, unless an earlier checkpoint has them."""
    there = store.copied(store.find().checkpoints)
    copies = {run: there.get(run) or store.copy_run(run, [body]) for run, body in runs.items()}
    catalog = store.copy_catalog(b"catalog")
    checkpoint = msgspec.structs.replace(made(id=checkpoint_id(1, number)), runs=copies, catalog=catalog)
    store.write(checkpoint)
    return checkpoint


def test_written_checkpoints_are_found_and_verified(store: CheckpointStore, tmp_path: Path) -> None:
    first, second = with_runs(store, 1, a=b"1", b=b"22"), with_runs(store, 2, b=b"22", c=b"333")
    assert store.find().checkpoints == (second, first)
    assert [store.verify(each) for each in (first, second)] == [[], []]
    assert b"".join(store.read(second.runs["c"])) == b"333"
    assert fragments(ObjectStore(str(tmp_path)), "c") == ["0"]
    assert fragments(ObjectStore(str(tmp_path)), "d") == []


def test_copies_go_with_the_last_checkpoint_that_names_them(store: CheckpointStore, tmp_path: Path) -> None:
    first, second = with_runs(store, 1, a=b"1", b=b"22"), with_runs(store, 2, b=b"22")
    store.copy_run("left-behind", [b"1"])
    store.clean([first])
    assert store.find().checkpoints == (second,)
    assert store.verify(second) == []
    assert ["c/0/runs/a" in line for line in store.verify(first)] == [True]
    assert set(ObjectStore(str(tmp_path)).names("c/0/runs")) == {"c/0/runs/b"}


def test_a_damaged_copy_is_named(store: CheckpointStore, tmp_path: Path) -> None:
    checkpoint = with_runs(store, 1, a=b"1", b=b"22")
    (tmp_path / "c/0/runs/b").write_bytes(b"21")
    assert store.verify(checkpoint) == ['"c/0/runs/b" is damaged: its checksum differs']


def test_a_damaged_document_hides_no_other(store: CheckpointStore, tmp_path: Path) -> None:
    first, second = with_runs(store, 1, a=b"1"), with_runs(store, 2, a=b"1")
    (tmp_path / f"c/0/checkpoints/{second.id}.json").write_bytes(b"{")
    found = store.find()
    assert found.checkpoints == (first,)
    assert list(found.damaged) == [second.id]
    store.copy_run("b", [b"1"])
    store.clean([])
    assert set(ObjectStore(str(tmp_path)).names("c/0/runs")) == {"c/0/runs/a", "c/0/runs/b"}, "it may name others"


def test_unfinished_copy_does_not_exist(store: CheckpointStore, tmp_path: Path) -> None:
    def broken() -> Iterator[bytes]:
        yield b"1"
        raise ExternalError("redis went away")

    with pytest.raises(ExternalError, match="redis went away"):
        store.copy_run("a", broken())
    assert ObjectStore(str(tmp_path)).names("c") == {}
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
