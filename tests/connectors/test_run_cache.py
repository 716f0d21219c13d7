"""State files damaged on disk: no read gives a wrong value; files written by earlier versions are still read."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from connectors.runs.run_cache import RunCache

FRAMES = {
    "numbers": pl.DataFrame({"k": range(300_000), "v": [at * 37 for at in range(300_000)]}),
    "small": pl.DataFrame({"g": ["g1", "g2", None], "n": [1, 111_101, 3]}),
    "large integers": pl.DataFrame({"n": pl.Series([2**100 + at for at in range(50_000)], dtype=pl.Int128)}),
}


def flip_a_bit(content: bytearray, draw: random.Random) -> None:
    content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)


def zero_half_a_kilobyte(content: bytearray, draw: random.Random) -> None:
    at = draw.randrange(max(len(content) // 512, 1)) * 512
    content[at : at + 512] = bytes(len(content[at : at + 512]))


@pytest.mark.parametrize("damage", [flip_a_bit, zero_half_a_kilobyte])
@pytest.mark.parametrize("name", FRAMES)
def test_no_wrong_value_is_read_from_a_damaged_file(
    name: str, damage: Callable[[bytearray, random.Random], None], tmp_path: Path
) -> None:
    frame, draw = FRAMES[name], random.Random(48)
    heard: list[str] = []
    RunCache(tmp_path).write("1/a", frame)
    (file,) = tmp_path.iterdir()
    written, changed = file.read_bytes(), 0
    for _ in range(150):
        content = bytearray(written)
        damage(content, draw)
        file.write_bytes(content)
        changed += content != written
        found = RunCache(tmp_path, lambda _, reason: heard.append(reason)).read("1/a")
        assert (found is not None and found.equals(frame)) if content == written else found is None
        assert file.exists() == (content == written)
    assert len(heard) == changed > 100


def test_a_process_that_has_the_file_open_notices_that_it_was_written_since(tmp_path: Path) -> None:
    cache = RunCache(tmp_path)
    cache.write("1/a", FRAMES["small"])
    assert cache.read("1/a") is not None
    (file,) = tmp_path.iterdir()
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.unlink()
    file.write_bytes(content)
    assert cache.read("1/a") is None


def test_check_detects_bytes_changed_on_disk(tmp_path: Path) -> None:
    """A failing disk changes bytes without changing the time or the size of the file."""
    heard: list[tuple[str, str]] = []
    cache = RunCache(tmp_path, lambda name, reason: heard.append((name, reason)))
    cache.write("1/a", FRAMES["numbers"])
    (file,) = tmp_path.iterdir()
    assert cache.check("1/a") == file.stat().st_size
    status, content = file.stat(), bytearray(file.read_bytes())
    content[3_000_000] ^= 4
    with file.open("r+b") as opened:
        opened.write(content)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert cache.check("1/a") is None and not file.exists()
    assert heard == [("1/a", "bytes 2097152 to 3145728 are damaged: the checksum differs")]


@pytest.mark.parametrize("name", FRAMES)
def test_files_of_versions_without_check_sums_are_read_and_get_them(name: str, tmp_path: Path) -> None:
    frame = FRAMES[name]
    file = tmp_path / "1_a.arrow"
    frame.write_ipc(file, compression="uncompressed", compat_level=pl.CompatLevel.newest())
    former, cache = file.stat().st_size, RunCache(tmp_path)
    found = cache.read("1/a")
    assert found is not None and found.equals(frame) and file.stat().st_size == former
    assert cache.check("1/a") == file.stat().st_size > former
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 1
    file.write_bytes(content)
    assert RunCache(tmp_path).read("1/a") is None


def test_mapped_file_stays_readable_after_its_removal(tmp_path: Path) -> None:
    cache = RunCache(tmp_path)
    cache.write("1/a", FRAMES["numbers"], durable=True)
    found = cache.read("1/a")
    cache.delete(["1/a"])
    assert found is not None and found.equals(FRAMES["numbers"])
    assert cache.read("1/a") is None


def test_a_file_system_without_second_names_of_files_links_nothing(tmp_path: Path, monkeypatch) -> None:
    former, cache = RunCache(tmp_path / "0"), RunCache(tmp_path / "1")
    former.write("1/a", FRAMES["small"])

    def refused(*_: object) -> None:
        raise PermissionError("operation not permitted")

    assert cache.link("2/a", former, "1/a") and cache.read("2/a").equals(FRAMES["small"])
    monkeypatch.setattr(os, "link", refused)
    assert not cache.link("2/b", former, "1/a") and cache.read("2/b") is None
