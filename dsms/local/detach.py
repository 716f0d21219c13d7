"""Starts a program as a daemon, which outlives the process that starts it, and prints its process id.

Run as a script: `python -I -S detach.py LOG_FILE PROGRAM [ARGUMENT…]`. The program leads its own session.
"""

import os
import sys


def main() -> None:
    """Starts the program with its output in the log file, and returns."""
    log_file, *program = sys.argv[1:]
    pid = os.fork()
    if pid:
        sys.stdout.write(f"{pid}\n")
        return
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    log = os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.execvp(program[0], program)


if __name__ == "__main__":
    main()
