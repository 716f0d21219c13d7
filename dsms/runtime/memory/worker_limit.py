"""The limit of a Spark worker's memory: a worker that passes it ends itself, before the machine runs out of memory.

The limit is on resident memory: how much address space allocators reserve depends on the machine and its processors. A
thread looks at it, because most of what takes memory, in Polars, Arrow and NumPy, lets other threads run meanwhile. Two
walls stand behind it: the system refuses an allocation far above the limit, and its killer of processes takes a worker
before the executor or the JVM.
"""

from __future__ import annotations

import mmap
import os
import re
import resource
import sys
import threading
import time
from collections.abc import Mapping, MutableMapping
from pathlib import Path

from dsms.runtime.settings import on_one_machine

#: The variable with the limit of each worker, in MiB.
VARIABLE = "DSMS_WORKER_MEMORY_MB"
#: For workers, set before they start: a panic of Rust that gets no memory while it prints its backtrace waits for ever.
ENVIRONMENT = {"RUST_BACKTRACE": "0"}
#: What a worker may take at least, in MiB: its modules, and a batch of honest queries.
LEAST_MB = 1_024
#: How a worker ends that has passed its limit.
EXIT_CODE = 77
_PERIOD_S = 0.05
#: How far above the limit the system refuses allocations, in MiB: it counts address space that is only reserved.
_RESERVED_MB = 8_192
#: How much likelier than the executor a worker is killed where the machine runs out of memory (0 to 1000).
_KILLED_FIRST = 500
_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_guarded: set[int] = set()


def default_limit_mb(memory_bytes: int, tasks: int) -> int:
    """The limit of a worker where none is set: half of the memory of the machine or container is for the tasks that run
    at once, the rest for the JVM, the driver and others; but not less than a worker needs.

    >>> default_limit_mb(24 << 30, 2), default_limit_mb(6 << 30, 2), default_limit_mb(2 << 30, 8)
    (6144, 1536, 1024)
    """
    return max(memory_bytes // 2 // max(tasks, 1) >> 20, LEAST_MB)


def set_worker_limit(limit_mb: int | None, master: str, environ: MutableMapping[str, str]) -> None:
    """Sets the limit of an executor's workers in the environment that they get. Without one, workers on this machine
    have that of `default_limit_mb`; the machines of others are not known.

    >>> environ: dict[str, str] = {}
    >>> set_worker_limit(None, "spark://10.0.0.1:7077", environ); environ
    {}
    >>> set_worker_limit(900, "local[2,2]", environ); environ
    {'DSMS_WORKER_MEMORY_MB': '900'}
    """
    if limit_mb is None and on_one_machine(master):
        limit_mb = default_limit_mb(memory_of_machine(), _tasks(master))
    if limit_mb is not None:
        environ[VARIABLE] = str(limit_mb)


def most_to_driver(targets: int, environ: Mapping[str, str] = os.environ) -> int | None:
    """The most bytes that the task of one of so many targets may send to the driver, which holds those of all of them:
    together as much as a worker may take; None without a limit.

    >>> most_to_driver(4, {"DSMS_WORKER_MEMORY_MB": "1000"}), most_to_driver(4, {})
    (262144000, None)
    """
    limit = _limit(environ)
    return None if limit is None else limit // targets


def _limit(environ: Mapping[str, str]) -> int | None:
    """The limit of a worker in bytes; None if there is none."""
    limit_mb = environ.get(VARIABLE, "")
    return int(limit_mb) << 20 if limit_mb.isdigit() else None


def _tasks(master: str) -> int:
    """How many tasks a local master runs at once.

    >>> _tasks("local[3,2]"), _tasks("local")
    (3, 1)
    """
    found = re.match(r"local\[(\d+|\*)", master)
    if found is None:
        return 1
    return (os.cpu_count() or 1) if found[1] == "*" else int(found[1])


def limit_text(environ: Mapping[str, str] = os.environ) -> str:
    """What a message says of the limit.

    >>> limit_text({"DSMS_WORKER_MEMORY_MB": "1500"}), limit_text({})
    ('DSMS_WORKER_MEMORY_MB, 1500 MiB', 'DSMS_WORKER_MEMORY_MB, not set')
    """
    limit_mb = environ.get(VARIABLE)
    return f"{VARIABLE}, {limit_mb} MiB" if limit_mb else f"{VARIABLE}, not set"


def memory_of_machine() -> int:
    """The memory in bytes of this machine, or of the container that this process runs in."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([physical, *(limit for name in _CGROUP_LIMITS if (limit := _number(Path(name))) is not None)])


def limit_memory(environ: Mapping[str, str] = os.environ) -> None:
    """Called by each task in a worker: the first one starts the thread that looks at its memory. Without the variable
    there is no limit."""
    limit = _limit(environ)
    if limit is None or os.getpid() in _guarded:
        return
    _guarded.add(os.getpid())
    _raise_walls(limit)
    if resident() is not None:
        threading.Thread(target=_watch, args=(limit,), name="memory", daemon=True).start()


def resident() -> int | None:
    """The memory in bytes that this process holds for itself, without mapped files; None where the system does not
    tell."""
    try:
        fields = Path("/proc/self/statm").read_bytes().split()
    except OSError:
        return None
    return (int(fields[1]) - int(fields[2])) * mmap.PAGESIZE


def _watch(limit: int) -> None:
    while (held := resident()) is None or held <= limit:
        time.sleep(_PERIOD_S)
    message = f"a worker ends itself: it holds {held >> 20:,} MiB, and may hold {limit >> 20:,} ({VARIABLE})\n"
    os.write(sys.stderr.fileno(), message.encode())
    os._exit(EXIT_CODE)


def _raise_walls(limit: int) -> None:
    wall = limit + (_RESERVED_MB << 20)
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard == resource.RLIM_INFINITY or hard > wall:
        resource.setrlimit(resource.RLIMIT_DATA, (wall, hard))
    try:
        Path("/proc/self/oom_score_adj").write_text(str(_KILLED_FIRST))
    except OSError:
        return  # another system, or it is not allowed: the limit holds without it


def _number(path: Path) -> int | None:
    """The number in a file of the system; None where there is none, or no limit."""
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
