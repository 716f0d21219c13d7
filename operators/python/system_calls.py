"""The system calls that user code may make, as a program for the kernel's filter (seccomp with classic BPF).

The law: a call that is not listed is refused with EPERM. So user code cannot open a socket, start a process or program,
signal other processes, or change the file system or a limit; and the memory limit includes all memory that the process
takes. A call by another architecture's numbers ends the process. `process.py` runs this file by its path; it imports no
other module of this project.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_EPERM, _ENOTTY, _ENOSYS = 1, 25, 38
#: Instructions: load a word of the call's description, mask it, compare it, end the program.
_LOAD, _AND, _EQUAL, _END = 0x20, 0x54, 0x15, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16

#: The kernel's identifier of each architecture, and the column of `_NUMBERS` with its system call numbers.
_ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}

_THREAD = 0x00010000  # CLONE_THREAD; the flags below create namespaces
_NAMESPACES = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
_CHANGES = 0o3 | 0o100 | 0o1000 | 0o20000000  # O_WRONLY, O_RDWR, O_CREAT, O_TRUNC, O_TMPFILE
_SHARED, _ANONYMOUS, _GROWS = 0x01, 0x20, 0x100
#: F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC, F_GETPIPE_SZ; F_SETOWN would send signals.
_FILE_COMMANDS = (0, 1, 2, 3, 4, 1030, 1032)


@dataclass(frozen=True)
class Word:
    """A condition on one half of an argument: after a mask it must have one of the values."""

    argument: int
    values: tuple[int, ...]
    mask: int = 0xFFFFFFFF
    high: bool = False


def program(machine: str, process: int) -> bytes | None:
    """Returns the filter for a process on a machine, in instructions of 8 bytes; None if the architecture is unknown.

    >>> program("riscv64", 1) is None
    True
    """
    if machine not in _ARCHITECTURES:
        return None
    architecture, column = _ARCHITECTURES[machine]
    code = [_load(_ARCHITECTURE_AT), _step(_EQUAL, architecture, 1, 0), _step(_END, _KILL), _load(_NUMBER_AT)]
    conditions = _conditions(process)
    for name, numbers in _NUMBERS.items():
        if (number := numbers[column]) is not None:
            answer = _ANSWERS.get(name, _ALLOW)
            code += _case(number, list(_checked(conditions.get(name, ()), answer)))
    return b"".join([*code, _step(_END, _ERRNO | _EPERM)])


def _conditions(process: int) -> dict[str, tuple[Word, ...]]:
    """Returns the conditions on the arguments of those calls that are allowed only with some arguments."""
    return {
        "clone": (Word(0, (_THREAD,), _THREAD | _NAMESPACES),),
        "open": (Word(1, (0,), _CHANGES),),
        "openat": (Word(2, (0,), _CHANGES),),
        "mmap": (Word(3, (0, _SHARED, _ANONYMOUS), _SHARED | _ANONYMOUS | _GROWS),),
        "fcntl": (Word(1, _FILE_COMMANDS),),
        "kill": (Word(0, (process,)),),
        "tgkill": (Word(0, (process,)),),
        "prlimit64": (Word(0, (0,)), Word(2, (0,)), Word(2, (0,), high=True)),
    }


def _case(number: int, body: list[bytes]) -> list[bytes]:
    """Runs the body, which ends the program, if the call has this number."""
    return [_step(_EQUAL, number, 0, len(body)), *body]


def _checked(words: tuple[Word, ...], answer: int) -> Iterator[bytes]:
    for word in words:
        yield _load(_ARGUMENTS_AT + 8 * word.argument + 4 * word.high)
        yield _step(_AND, word.mask)
        for at, value in enumerate(word.values):
            yield _step(_EQUAL, value, len(word.values) - at, 0)
        yield _step(_END, _ERRNO | _EPERM)
    yield _step(_END, answer)


def _load(offset: int) -> bytes:
    return _step(_LOAD, offset)


def _step(code: int, value: int, if_so: int = 0, if_not: int = 0) -> bytes:
    return struct.pack("<HBBI", code, if_so, if_not, value)


#: Calls that are refused with errors that libraries handle: no terminal, and not implemented, so that they use `clone`.
_ANSWERS = {"ioctl": _ERRNO | _ENOTTY, "clone3": _ERRNO | _ENOSYS}

#: The allowed calls with their numbers on x86_64 and aarch64, those of hot paths first.
_NUMBERS: dict[str, tuple[int | None, int | None]] = {
    "read": (0, 63),
    "write": (1, 64),
    "futex": (202, 98),
    "madvise": (28, 233),
    "mmap": (9, 222),
    "munmap": (11, 215),
    "mprotect": (10, 226),
    "mremap": (25, 216),
    "brk": (12, 214),
    "sched_yield": (24, 124),
    "clock_gettime": (228, 113),
    "clock_getres": (229, 114),
    "clock_nanosleep": (230, 115),
    "nanosleep": (35, 101),
    "gettimeofday": (96, 169),
    "time": (201, None),
    "times": (100, 153),
    "getrusage": (98, 165),
    "getrandom": (318, 278),
    "readv": (19, 65),
    "writev": (20, 66),
    "pread64": (17, 67),
    "pwrite64": (18, 68),
    "lseek": (8, 62),
    "open": (2, None),
    "openat": (257, 56),
    "close": (3, 57),
    "close_range": (436, 436),
    "dup": (32, 23),
    "dup2": (33, None),
    "dup3": (292, 24),
    "fcntl": (72, 25),
    "ioctl": (16, 29),
    "fstat": (5, 80),
    "stat": (4, None),
    "lstat": (6, None),
    "newfstatat": (262, 79),
    "statx": (332, 291),
    "statfs": (137, 43),
    "fstatfs": (138, 44),
    "access": (21, None),
    "faccessat": (269, 48),
    "faccessat2": (439, 439),
    "readlink": (89, None),
    "readlinkat": (267, 78),
    "getcwd": (79, 17),
    "getdents": (78, None),
    "getdents64": (217, 61),
    "fadvise64": (221, 223),
    "umask": (95, 166),
    "poll": (7, None),
    "ppoll": (271, 73),
    "select": (23, None),
    "pselect6": (270, 72),
    "epoll_create": (213, None),
    "epoll_create1": (291, 20),
    "epoll_ctl": (233, 21),
    "epoll_wait": (232, None),
    "epoll_pwait": (281, 22),
    "eventfd2": (290, 19),
    "pipe": (22, None),
    "pipe2": (293, 59),
    "clone": (56, 220),
    "clone3": (435, 435),
    "set_robust_list": (273, 99),
    "set_tid_address": (218, 96),
    "rseq": (334, 293),
    "membarrier": (324, 283),
    "futex_waitv": (449, 449),
    "sched_getaffinity": (204, 123),
    "getcpu": (309, 168),
    "arch_prctl": (158, None),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "rt_sigpending": (127, 136),
    "rt_sigtimedwait": (128, 137),
    "rt_sigsuspend": (130, 133),
    "sigaltstack": (131, 132),
    "restart_syscall": (219, 128),
    "getitimer": (36, 102),
    "setitimer": (38, 103),
    "alarm": (37, None),
    "pause": (34, None),
    "kill": (62, 129),
    "tgkill": (234, 131),
    "exit": (60, 93),
    "exit_group": (231, 94),
    "wait4": (61, 260),
    "getpid": (39, 172),
    "gettid": (186, 178),
    "getppid": (110, 173),
    "getuid": (102, 174),
    "geteuid": (107, 175),
    "getgid": (104, 176),
    "getegid": (108, 177),
    "getresuid": (118, 148),
    "getresgid": (120, 150),
    "getgroups": (115, 158),
    "getrlimit": (97, 163),
    "prlimit64": (302, 261),
    "sysinfo": (99, 179),
    "uname": (63, 160),
}
