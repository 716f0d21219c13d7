"""User code cannot reach files, the network or other processes, but has all that it needs."""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from operators.core.errors import ConfigError, UserError
from operators.python import Limits, PythonFunction, call_function, package_of
from operators.python.sandbox import MODE_VARIABLE, mode_of, sandbox_of
from operators.python.system_calls import program

_LANDLOCK_ABI = (444, None, 0, 1)
pytestmark = pytest.mark.skipif(
    ctypes.CDLL(None).syscall(*_LANDLOCK_ABI) < 1,
    reason="the kernel has no Landlock, without which there is no sandbox",
)


@pytest.fixture(autouse=True)
def required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MODE_VARIABLE, "require")


#: A function that returns how the attempts ended, one word for each.
TOLD = """
import ctypes, errno, fcntl, mmap, os, resource, signal, socket, subprocess
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    if libc.syscall(number, *arguments) == -1:
        raise OSError(ctypes.get_errno(), "call")
def told(attempt):
    try:
        attempt()
    except PermissionError:
        return "refused"
    except OSError as error:
        return errno.errorcode[error.errno]
    return "done"
def f(n):
    return [" ".join(told(attempt) for attempt in (ATTEMPTS,))]
"""


def function(source: str, result: pa.DataType | None = None) -> PythonFunction:
    parameters = (("n", pa.int64()),)
    return PythonFunction(
        "f", parameters, result or pa.string(), "f", package_of(source.encode()), Limits(60.0, 1 << 30)
    )


def called(source: str) -> str:
    made = function(source)
    try:
        (value,) = call_function(made, pl.DataFrame({"n": [1]}), 1).to_list()
    finally:
        sandbox_of(made).close()
        sandbox_of.cache_clear()
    assert isinstance(value, str)
    return value


def not_refused(attempts: Sequence[str]) -> list[tuple[str, str]]:
    """The attempts (Python expressions) that did not end with a PermissionError, each with how it ended."""
    source = TOLD.replace("ATTEMPTS", ", ".join(f"lambda: {attempt}" for attempt in attempts))
    return [pair for pair in zip(attempts, called(source).split(), strict=True) if pair[1] != "refused"]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A directory with a file that all may read and change."""
    tmp_path.chmod(0o777)
    (tmp_path / "a").write_text("secret")
    (tmp_path / "a").chmod(0o666)
    yield tmp_path
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("a", "secret")]


def test_files_are_out_of_reach(place: Path) -> None:
    pid = os.getpid()
    attempts = [
        f"open('{place}/a').read()",
        "open('/etc/passwd').read()",
        f"os.listdir('{place}')",
        "os.listdir('/')",
        f"open('/proc/{pid}/environ').read()",
        "open('/proc/self/environ').read()",
        f"os.listdir('/proc/{pid}/fd')",
        f"os.readlink('/proc/{pid}/exe')",
        f"open('{place}/b', 'w')",
        f"open('{place}/a', 'a')",
        f"os.open('{place}/a', os.O_RDONLY | os.O_TRUNC)",
        f"os.open('{place}', os.O_RDWR | os.O_TMPFILE)",
        "open(os.__file__, 'r+')",
        f"os.truncate('{place}/a', 0)",
        f"os.rename('{place}/a', '{place}/b')",
        f"os.remove('{place}/a')",
        f"os.mkdir('{place}/b')",
        f"os.symlink('{place}/a', '{place}/b')",
        f"os.link('{place}/a', '{place}/b')",
        f"os.mkfifo('{place}/b')",
        f"os.chmod('{place}/a', 0)",
        f"os.chown('{place}/a', 0, 0)",
        f"os.utime('{place}/a')",
        f"os.setxattr('{place}/a', 'user.x', b'y')",
        f"os.chdir('{place}')",
        f"os.chroot('{place}')",
        "open('/dev/zero', 'rb')",  # which makes shared memory
        "os.memfd_create('x')",
        "mmap.mmap(-1, 1 << 20)",
        "mmap.mmap(-1, 1 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x100)",
    ]
    assert not_refused(attempts) == []


def test_the_network_is_out_of_reach() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        attempts = [
            f"socket.create_connection(('127.0.0.1', {port}))",
            "socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
            "socket.socket(socket.AF_UNIX)",
            "socket.socketpair()",
            "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
        ]
        assert not_refused(attempts) == []


def test_other_processes_are_out_of_reach() -> None:
    pid = os.getpid()
    attempts = [
        "subprocess.run(['/bin/true'])",
        "os.fork() or os._exit(0)",
        "os.execv('/bin/true', ['true'])",
        "os.posix_spawn('/bin/true', ['true'], {})",
        f"os.kill({pid}, signal.SIGCONT)",
        "os.kill(0, signal.SIGCONT)",
        "os.kill(-1, signal.SIGCONT)",
        f"fcntl.fcntl(3, 8, {pid})",  # F_SETOWN: the kernel sends SIGIO
        "fcntl.fcntl(3, fcntl.F_NOTIFY, 0)",
        f"resource.prlimit({pid}, resource.RLIMIT_NOFILE, (64, 64))",
        f"os.sched_setaffinity({pid}, {{0}})",
        f"os.setpriority(os.PRIO_PROCESS, {pid}, 1)",
        "os.setuid(0)",
    ]
    assert not_refused(attempts) == []


#: System calls without a name in Python: the number on x86_64, and arguments. Some of them would succeed.
RAW_CALLS = {
    "vfork": "58",
    "ptrace attach": "101, 16, {pid}, 0, 0",
    "prlimit64": "302, 0, 2, (ctypes.c_uint64 * 2)(1, 1), 0",
    "process_vm_readv": "310, {pid}, 0, 0, 0, 0, 0",
    "prctl": "157, 1, 0, 0, 0, 0",
    "unshare": "272, 0x10000000",
    "clone of a user namespace": "56, 0x10000011, 0, 0, 0, 0",
    "rt_sigqueueinfo": "129, {pid}, 18, 0",
    "tkill": "200, {pid}, 0",
    "tgkill": "234, {pid}, {pid}, 0",
    "io_uring_setup": "425, 1, 0",
    "bpf": "321, 0, 0, 0",
    "userfaultfd": "323, 0",
    "perf_event_open": "298, 0, 0, 0, 0, 0",
    "keyctl": "250, 0, 0, 0, 0, 0",
    "shmget": "29, 0, 4096, 0o1600",
    "mount": "165, 0, 0, 0, 0, 0",
    "open_by_handle_at": "304, 0, 0, 0",
    "openat2": "437, -100, 0, 0, 0",
    "pidfd_open": "434, {pid}, 0",
    "capset": "126, 0, 0",
    "seccomp": "317, 1, 0, 0",
    "personality": "135, 0x40000",
    "x32 getpid": "0x40000027",
}


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers of x86_64")
def test_native_code_makes_no_other_system_calls() -> None:
    attempts = [f"call({arguments.format(pid=os.getpid())})" for arguments in RAW_CALLS.values()]
    clone3 = "call(435, 0, 0)"  # after ENOSYS, libraries call clone
    assert not_refused([*attempts, clone3]) == [(clone3, "ENOSYS")]


def test_a_process_of_root_is_one_of_nobody() -> None:
    source = """
import os
def f(n):
    return [f"{os.getuid()} {os.geteuid()} {os.getgroups()} {sorted(os.environ)} {os.getcwd()}"]
"""
    own = os.getuid() or 65534
    assert called(source) == f"{own} {own} {os.getgroups() if os.getuid() else []} [] /"


def test_user_code_can_exit_and_use_threads_and_pipes() -> None:
    source = """
import os, select, threading
from concurrent.futures import ThreadPoolExecutor
def f(n):
    reading, writing = os.pipe()
    with ThreadPoolExecutor(3) as pool:
        total = sum(pool.map(lambda x: x * x, range(4)))
    os.write(writing, b"x")
    select.select([reading], [], [], 5)
    event = threading.Event()
    threading.Timer(0.01, event.set).start()
    return [f"{total} {os.read(reading, 1)} {event.wait(5)}"]
"""
    assert called(source) == "14 b'x' True"
    with pytest.raises(UserError, match="its process ended: SIGABRT"):
        called("import os\ndef f(n): os.abort()")


def test_user_code_can_import_libraries() -> None:
    source = """
def f(n):
    import datetime, decimal, hashlib, sqlite3, uuid, zoneinfo
    import numpy as np, polars as pl, pyarrow as pa, pyarrow.compute as pc
    zone = zoneinfo.ZoneInfo("Europe/Vienna")
    grouped = pa.table({"k": [1, 1, 2] * 100000, "v": [1, 2, 3] * 100000}).group_by("k").aggregate([("v", "sum")])
    local = pc.assume_timezone(pa.array([datetime.datetime(2026, 7, 1)]), "Europe/Vienna")[0].as_py()
    found = (
        sqlite3.connect(":memory:").execute("SELECT sum(x) FROM (SELECT 1 x UNION SELECT 2)").fetchone()[0],
        int(np.linalg.det(np.eye(300))), pl.DataFrame({"a": [1, 2]}).lazy().sum().collect()["a"][0],
        sorted(grouped["v_sum"].to_pylist()), datetime.datetime(2026, 1, 1, tzinfo=zone).utcoffset().seconds,
        local.utcoffset().seconds, len(uuid.uuid4().hex), hashlib.sha256(b"").hexdigest()[:4],
    )
    return [str(found)]
"""
    assert called(source) == "(3, 1, 3, [300000, 300000], 3600, 7200, 32, 'e3b0')"


IMPORTS = """
import importlib, sys
def f(n):
    failed = []
    for name in sorted(sys.stdlib_module_names - {"antigravity", "this", "idlelib", "__main__"}):
        try:
            importlib.import_module(name)
        except BaseException as error:
            failed.append(name)
    return [" ".join(failed)]
"""


def test_the_standard_library_can_be_imported_as_elsewhere() -> None:
    elsewhere = subprocess.run(
        [sys.executable, "-I", "-W", "ignore", "-c", f"{IMPORTS}\nprint(f(1)[0])"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert called(IMPORTS) == elsewhere.stdout.strip()


def test_error_states_what_user_code_may_not_use() -> None:
    with pytest.raises(UserError, match="PermissionError: .*(?s:.)*Python code has no network"):
        called("import socket\ndef f(n): return [str(socket.socket())]")


ANSWERS = """
import os, struct
def say(content):
    for end in range(3, 12):
        try:
            os.write(end, struct.pack("<q", {length}) + content)
        except OSError:
            pass
def f(n):
    say({content})
    return ["late"]
"""


@pytest.mark.parametrize(
    ("length", "content", "why"),
    [
        ("1 << 60", "b''", "announced an answer of 1152921504606846976 bytes"),
        ("-1", "b''", "announced an answer of -1 bytes"),
        ("len(content)", "b'\\0' + b'no Arrow' * 9", "returned an unreadable answer"),
        ("len(content)", "b'\\1' + b'no JSON'", "returned an unreadable answer"),
    ],
)
def test_a_forged_answer_is_refused(length: str, content: str, why: str) -> None:
    with pytest.raises(UserError, match=why):
        called(ANSWERS.format(length=length, content=content))


#: Runs a call as in a kernel without Landlock: an outer filter gives the kernel's answer.
WITHOUT_LANDLOCK = """
import ctypes, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
steps = [(0x20, 0, 0, 0), (0x15, 0, 1, 444), (0x06, 0, 0, 0x50026), (0x06, 0, 0, 0x7FFF0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *step) for step in steps), 32)
assert not libc.prctl(38, 1, 0, 0, 0)
assert not libc.prctl(22, 2, struct.pack("@HP", 4, ctypes.addressof(code)))
import polars as pl, pyarrow as pa
from operators.core.errors import UserError
from operators.python import PythonFunction, call_function, package_of
source = b"import os\\ndef f(n): return [str(os.path.isdir('/') and bool(os.listdir('/')))]"
made = PythonFunction("f", (("n", pa.int64()),), pa.string(), "f", package_of(source))
try:
    print(call_function(made, pl.DataFrame({"n": [1]}), 1).to_list())
except UserError as error:
    print(error)
"""


def without_landlock(mode: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, MODE_VARIABLE: mode}
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_LANDLOCK], env=environment, capture_output=True, text=True, check=True
    )


def test_without_a_sandbox_no_code_is_run_unless_a_setting_allows_it() -> None:
    refused = without_landlock("require").stdout
    assert 'function "f" failed at the row n = 1: Python code runs only in a sandbox' in refused
    assert "Landlock is not available (Function not implemented)" in refused
    assert "DSMS_PYTHON_SANDBOX=prefer" in refused
    preferred = without_landlock("prefer")
    assert preferred.stdout == "['True']\n"
    assert 'the sandbox of "f" is incomplete: Landlock is not available' in preferred.stderr
    switched_off = without_landlock("off")
    assert (switched_off.stdout, switched_off.stderr) == ("['True']\n", "")


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(ConfigError, match='DSMS_PYTHON_SANDBOX is "on"'):
        mode_of({MODE_VARIABLE: "on"})


def test_supported_machines_have_a_system_call_filter() -> None:
    filters = [program(machine, 7) for machine in ("x86_64", "aarch64")]
    assert all(code is not None and len(code) % 8 == 0 and len(code) // 8 < 4096 for code in filters)
    assert program("riscv64", 7) is None
