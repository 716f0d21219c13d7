"""Frames that pass through files: they are read as they were written, and results are the same with and without
files."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from dsms.runtime.stages import frames
from dsms.runtime.stages.frames import MIN_FILE_BYTES, pack, remove_files, unpack
from operators.core.errors import ExternalError
from tests.dsms.runtime.test_epoch import world_of
from tests.support.pure_executor import run

ROWS = MIN_FILE_BYTES // 8
FRAMES = {
    "numbers and texts": {"a": range(ROWS), "t": [None if at % 3 else "x" * (at % 40) for at in range(ROWS)]},
    "bytes": {"b": [bytes([at % 256]) * (at % 20) for at in range(ROWS)]},
    "lists": {"l": [[at] * (at % 3) for at in range(ROWS)]},
    "instants": {"i": [datetime(2026, 1, 1, microsecond=at % 1000, tzinfo=UTC) for at in range(ROWS)]},
    "large integers": {"n": pl.Series([2**100 + at for at in range(ROWS)], dtype=pl.Int128)},
}
LOGS = [[("a", at % 3, at, None) for at in range(9)], [("b", 2, 3, None), ("a", 1, 5, "-"), ("c", 0, 7, "bad")]]


@pytest.mark.parametrize("name", FRAMES)
def test_large_frame_is_passed_by_name_and_outlives_its_file(name, tmp_path) -> None:
    frame = pl.DataFrame(FRAMES[name])
    blob = pack([frame], tmp_path)
    assert len(blob) < 1000
    received = unpack(blob)
    remove_files(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert_frame_equal(received, frame)


@pytest.mark.parametrize("name", FRAMES)
def test_concatenated_frames_are_unpacked_as_one(name, tmp_path) -> None:
    frame, rest = pl.DataFrame(FRAMES[name]), pl.DataFrame(FRAMES[name]).tail(3)
    for directory in (tmp_path, None):
        assert_frame_equal(unpack(pack(iter([frame, rest, rest]), directory)), pl.concat([frame, rest, rest]))


def test_each_frame_is_written_before_the_next_is_made(tmp_path) -> None:
    frame, sizes = pl.DataFrame(FRAMES["bytes"]), list[int]()

    def made():
        for _ in range(3):
            yield frame
            sizes.extend(path.stat().st_size for path in tmp_path.iterdir())

    pack(made(), tmp_path)
    assert len(sizes) == 3
    assert all(size > at * frame.estimated_size() // 2 for at, size in enumerate(sizes))


def test_a_task_that_is_tried_again_reads_the_same(tmp_path) -> None:
    frame = pl.DataFrame(FRAMES["bytes"])
    blob, other = pack([frame], tmp_path), pack([frame], tmp_path)
    assert blob != other
    assert_frame_equal(unpack(blob), unpack(blob))


def test_small_frames_and_frames_for_other_machines_are_sent_inline(tmp_path) -> None:
    small, large = pl.DataFrame({"a": [1]}), pl.DataFrame(FRAMES["bytes"])
    blobs = pack([small], tmp_path), pack([large], None)
    assert list(tmp_path.iterdir()) == []
    assert_frame_equal(unpack(blobs[0]), small)
    assert_frame_equal(unpack(blobs[1]), large)


def through(directory) -> tuple:
    world, catalog = world_of(LOGS)
    world.frames = directory
    run(world, catalog, 2, [3, 5])
    return world.written, world.dead


def test_results_do_not_depend_on_files(tmp_path, monkeypatch) -> None:
    along, made = through(None), []
    monkeypatch.setattr(frames, "MIN_FILE_BYTES", 0)
    write = frames.write_frames
    monkeypatch.setattr(frames, "write_frames", lambda *args, **more: made.append(1) or write(*args, **more))
    assert through(tmp_path) == along
    assert len(made) > 10
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_file_is_an_error_and_no_other_value(tmp_path) -> None:
    frame, draw = pl.DataFrame(FRAMES["numbers and texts"]), random.Random(48)
    blob = pack([frame], tmp_path)
    (file,) = tmp_path.iterdir()
    written = file.read_bytes()
    for _ in range(50):
        content = bytearray(written)
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        file.write_bytes(content)
        with pytest.raises(ExternalError, match="is damaged"):
            unpack(blob)
    file.write_bytes(written)
    assert_frame_equal(unpack(blob), frame)
