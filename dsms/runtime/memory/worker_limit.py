"""The memory limit of a Spark worker: a worker that exceeds it exits, before the machine runs out of memory.

The limit is on resident memory, because the address space that allocators reserve depends on the machine and its
processors. A thread checks it periodically; this works because the operations of Polars, Arrow and NumPy that take much
memory mostly let other threads run. There are two further safeguards: the system refuses allocations far above the
limit, and its out-of-memory killer ends a worker before the executor or the JVM.
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

#: The environment variable with the limit of each worker, in MiB.
VARIABLE = "DSMS_WORKER_MEMORY_MB"
#: For workers, set before they start: a Rust panic that gets no memory while it prints its backtrace hangs for ever.
ENVIRONMENT = {"RUST_BACKTRACE": "0"}
#: The least default limit, in MiB: enough for a worker's modules and a batch of ordinary queries.
MIN_MB = 1_024
#: The exit code of a worker that has exceeded its limit.
EXIT_CODE = 77
_PERIOD_S = 0.05
#: By how many MiB the system's own limit is higher, because the system also counts address space that is only reserved.
_RESERVED_MB = 8_192
#: A worker's `oom_score_adj` (up to 1000): the greater it is, the sooner the system kills it when memory runs out.
_KILLED_FIRST = 500
_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_limited_processes: set[int] = set()


def default_limit_mb(memory_bytes: int, tasks: int) -> int:
    """The limit of a worker if none is set: half of the memory of the machine or container divided by the tasks that
    run at once, but not less than a worker needs. The other half is for the JVM, the driver and other processes.

    >>> default_limit_mb(24 << 30, 2), default_limit_mb(6 << 30, 2), default_limit_mb(2 << 30, 8)
    (6144, 1536, 1024)
    """
    return max(memory_bytes // 2 // max(tasks, 1) >> 20, MIN_MB)


def set_worker_limit(limit_mb: int | None, master: str, environ: MutableMapping[str, str]) -> None:
    """Sets the limit of an executor's workers in the environment that they inherit. If `limit_mb` is None, workers on
    this machine get `default_limit_mb`, and workers on other machines get no limit, since their memory is unknown.

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
    """The most bytes that the task of one target may send to the driver; None without a limit. The driver holds the
    bytes of all targets; together they may be as large as a worker's limit.

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
    """The limit as messages show it.

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
    """Limits the memory of this worker, if the variable is set. To be called by each task: the first call starts the
    thread that checks the memory."""
    limit = _limit(environ)
    if limit is None or os.getpid() in _limited_processes:
        return
    _limited_processes.add(os.getpid())
    _set_system_limits(limit)
    if resident() is not None:
        threading.Thread(target=_watch, args=(limit,), name="memory", daemon=True).start()


def resident() -> int | None:
    """The resident memory of this process in bytes, without mapped files; None if the system does not provide it."""
    try:
        fields = Path("/proc/self/statm").read_bytes().split()
    except OSError:
        return None
    return (int(fields[1]) - int(fields[2])) * mmap.PAGESIZE


def _watch(limit: int) -> None:
    while (used := resident()) is None or used <= limit:
        time.sleep(_PERIOD_S)
    message = (
        f"a worker exits: it uses {used >> 20:,} MiB of memory, but its limit is {limit >> 20:,} MiB ({VARIABLE})\n"
    )
    os.write(sys.stderr.fileno(), message.encode())
    os._exit(EXIT_CODE)


def _set_system_limits(limit: int) -> None:
    address_limit = limit + (_RESERVED_MB << 20)
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard == resource.RLIM_INFINITY or hard > address_limit:
        resource.setrlimit(resource.RLIMIT_DATA, (address_limit, hard))
    try:
        Path("/proc/self/oom_score_adj").write_text(str(_KILLED_FIRST))
    except OSError:
        return  # not Linux, or not permitted: the limit works without this


def _number(path: Path) -> int | None:
    """The number in a system file; None if there is no such file, or no limit in it."""
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
