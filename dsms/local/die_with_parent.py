"""Runs another program, which the kernel kills as soon as its parent process ends.

Run as a script: `python -I -S die_with_parent.py PARENT_PID PROGRAM [ARGUMENT…]`. The program replaces this process, so
it has the process id that its parent knows. On systems whose kernel lacks this feature (macOS), the program is not
killed.
"""

import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def _bind_to_parent(parent: int) -> None:
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit("the parent process ended before the program could start")


def main() -> None:
    """Replaces this process with the program of the command line."""
    _bind_to_parent(int(sys.argv[1]))
    program = sys.argv[2:]
    os.execvp(program[0], program)


if __name__ == "__main__":
    main()
