"""Starts a program that outlives us and is nobody's child; says its process id.

Run as a script: `python -I -S detach.py LOG_FILE PROGRAM [ARGUMENT…]`. The program leads its own session.
"""

import os
import sys


def main() -> None:
    """Leaves the program behind with its output in the log file."""
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
