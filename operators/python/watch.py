"""Watches the process of a function from outside, and ends it if it exceeds its limits.

The kernel's memory limit (`RLIMIT_DATA`) includes only writable memory. User code can fill pages and make them
read-only, so the resident memory is checked as well. The kernel has no limit for the threads of one process.
"""

from __future__ import annotations

import re
import subprocess
import threading
import time
from pathlib import Path

_PERIOD_S = 0.05
#: The limit is high, because libraries start several threads for each core.
MAX_THREADS = 1_024
_MEMORY = re.compile(r"^(?:RssAnon|RssShmem|VmSwap):\s*(\d+) kB$", re.MULTILINE)
_THREADS = re.compile(r"^Threads:\s*(\d+)$", re.MULTILINE)


class Watch:
    """Watches a process in a thread that ends when the process ends. If the watch has killed the process, `why` is the
    reason; else it is None."""

    def __init__(self, process: subprocess.Popen[bytes], most_bytes: int) -> None:
        self._process, self._most_bytes = process, most_bytes
        self.why: str | None = None
        threading.Thread(target=self._look, name="watch of a function", daemon=True).start()

    def _look(self) -> None:
        status = Path(f"/proc/{self._process.pid}/status")
        while self._process.poll() is None:
            try:
                self.why = excess(status.read_text(), self._most_bytes)
            except OSError:  # the process has ended, or the system has no such file
                return
            if self.why is not None:
                self._process.kill()
                return
            time.sleep(_PERIOD_S)


def excess(status: str, most_bytes: int) -> str | None:
    r"""Returns which limit a process exceeds, given the text of its file /proc/PID/status; None if it exceeds no limit.

    >>> excess("Threads:\t2\nRssAnon:\t 3072 kB\nRssShmem:\t 1024 kB\n", 2 << 20)
    'it used 4 MiB of memory; the limit is 2 MiB'
    >>> excess("Threads:\t2000\n", 2 << 20), excess("Threads:\t3\n", 2 << 20)
    ('it had 2000 threads; the limit is 1024', None)
    """
    held = sum(int(size) << 10 for size in _MEMORY.findall(status))
    if held > most_bytes:
        return f"it used {held >> 20} MiB of memory; the limit is {most_bytes >> 20} MiB"
    threads = _THREADS.search(status)
    if threads is not None and int(threads[1]) > MAX_THREADS:
        return f"it had {threads[1]} threads; the limit is {MAX_THREADS}"
    return None
