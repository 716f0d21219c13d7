"""A watch over the process of a function, from outside: it ends one that takes more than it may.

The kernel's limit of memory (`RLIMIT_DATA`) counts what may be written. Code of users can make pages read-only that it
has filled, so what is resident is looked at as well; and no limit of the kernel holds for the threads of one process.
"""

from __future__ import annotations

import re
import subprocess
import threading
import time
from pathlib import Path

_PERIOD_S = 0.05
#: Libraries start some for each core.
MOST_THREADS = 1_024
_MEMORY = re.compile(r"^(?:RssAnon|RssShmem|VmSwap):\s*(\d+) kB$", re.MULTILINE)
_THREADS = re.compile(r"^Threads:\s*(\d+)$", re.MULTILINE)


class Watch:
    """The watch over a process, in a thread that ends with it. `why` says why the process was ended, if it was."""

    def __init__(self, process: subprocess.Popen[bytes], most_bytes: int) -> None:
        self._process, self._most_bytes = process, most_bytes
        self.why: str | None = None
        threading.Thread(target=self._look, name="watch of a function", daemon=True).start()

    def _look(self) -> None:
        status = Path(f"/proc/{self._process.pid}/status")
        while self._process.poll() is None:
            try:
                self.why = excess(status.read_text(), self._most_bytes)
            except OSError:  # it has ended, or the system does not tell
                return
            if self.why is not None:
                self._process.kill()
                return
            time.sleep(_PERIOD_S)


def excess(status: str, most_bytes: int) -> str | None:
    r"""What a process has too much of, by its file in /proc; None if it has not.

    >>> excess("Threads:\t2\nRssAnon:\t 3072 kB\nRssShmem:\t 1024 kB\n", 2 << 20)
    'it held 4 MiB of memory, and may hold 2'
    >>> excess("Threads:\t2000\n", 2 << 20), excess("Threads:\t3\n", 2 << 20)
    ('it had 2000 threads, and may have 1024', None)
    """
    held = sum(int(size) << 10 for size in _MEMORY.findall(status))
    if held > most_bytes:
        return f"it held {held >> 20} MiB of memory, and may hold {most_bytes >> 20}"
    threads = _THREADS.search(status)
    if threads is not None and int(threads[1]) > MOST_THREADS:
        return f"it had {threads[1]} threads, and may have {MOST_THREADS}"
    return None
