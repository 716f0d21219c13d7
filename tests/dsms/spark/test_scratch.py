"""The scratch directory of an executor: it is emptied at the start and removed at the end."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from dsms.spark.scratch import make_directories, scratch_directory, temporary_directory

#: The name of a Spark socket, and the longest path of a socket: Java refuses 107 bytes as "Unix domain path too long".
SOCKET, LONGEST_IN_JAVA = ".12345678-1234-1234-1234-123456789012.sock", 106


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A short temporary directory: pytest's paths are too long for sockets."""
    with TemporaryDirectory() as made:
        yield Path(made)


@pytest.mark.parametrize("name", ["near", "far" * 30])
def test_leftovers_of_a_killed_run_are_removed(short_path: Path, name: str):
    scratch = short_path / name
    assert (temporary_directory(scratch) == scratch) == (name == "near")
    for left in (scratch, temporary_directory(scratch)):
        left.mkdir(exist_ok=True)
        (left / "left").touch()
    with scratch_directory(scratch):
        assert list(scratch.iterdir()) == list(temporary_directory(scratch).iterdir()) == []
    assert not scratch.exists()
    assert not temporary_directory(scratch).exists()


def test_a_path_that_is_too_long_for_sockets_has_a_short_one_of_its_own(tmp_path: Path):
    first, second = tmp_path / ("a" * 90), tmp_path / ("b" * 90)
    assert temporary_directory(first) != temporary_directory(second)
    assert len(bytes(temporary_directory(first) / SOCKET)) <= LONGEST_IN_JAVA


@pytest.mark.parametrize("length", range(55, 75))
def test_socket_paths_fit_the_limit_for_any_directory(length: int):
    scratch = Path("/" + "a" * (length - 1))
    assert len(bytes(temporary_directory(scratch) / SOCKET)) <= LONGEST_IN_JAVA


def test_scratch_removed_under_a_running_executor_is_recreated(tmp_path: Path) -> None:
    scratch = tmp_path / ("long" * 20) / "executor-1"
    with scratch_directory(scratch):
        for directory in (scratch, temporary_directory(scratch)):
            directory.rmdir()
        make_directories(scratch)
        make_directories(scratch)
        assert scratch.is_dir() and temporary_directory(scratch).is_dir()
    assert not scratch.exists() and not temporary_directory(scratch).exists()
