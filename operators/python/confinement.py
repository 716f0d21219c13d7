"""Takes rights, files and system calls from the process of a function before user code runs in it.

Each step needs no privilege, works in a container with the default profile of Docker, containerd or CRI-O, and holds
for the rest of the process's life. A step that the platform refuses returns the reason. `process.py` runs this file by
its path; it imports no other module of this project.
"""

import ctypes
import os
import resource
import signal
import struct
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38
_MAX_FILES = 64
#: The id of the user nobody, to which a process of root changes.
_NOBODY = 65534
_CAPABILITIES_VERSION = 0x20080522

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_READ_FILE, _READ_DIRECTORY = 1 << 2, 1 << 3
#: How many rights over files each version of Landlock has; it has rights over TCP since version 4, over signals and
#: sockets since 6.
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 5: 16}
_TCP_SINCE, _SCOPES_SINCE = 4, 6
#: The files that libraries read besides their own: shared objects, time zones, randomness, the number of cores.
_READABLE = (
    *("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache"),
    *("/usr/share/zoneinfo", "/etc/localtime", "/dev/null", "/dev/random", "/dev/urandom"),
    *("/proc/cpuinfo", "/sys/devices/system/cpu"),
)

_libc = ctypes.CDLL(None, use_errno=True)


def readable_paths() -> list[str]:
    """Returns the paths that may be read: the installation of Python with its packages, and shared objects of the
    system. Entries of `sys.path` elsewhere, such as the directory of a project under development, are excluded."""
    prefixes = dict.fromkeys((sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix))
    libraries = [os.path.join(prefix, name) for prefix in prefixes for name in ("lib", "lib64")]
    packages = [path for path in sys.path if any(path.startswith(prefix.rstrip("/") + "/") for prefix in prefixes)]
    return [path for path in dict.fromkeys((*libraries, *packages, *_READABLE)) if os.path.exists(path)]


def limit_files() -> None:
    """Forbids growing files and core dumps, and limits the number of open files."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (_MAX_FILES, _MAX_FILES))


def die_with_parent() -> None:
    """Makes the kernel end this process with its parent. Must be called after the change of the user, which resets
    this."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def give_up_rights(paths: Iterable[str]) -> None:
    """Changes a process of root to the user `nobody`, if this user may read the paths; always gives up all
    capabilities."""
    if os.geteuid() == 0:
        with suppress(OSError):  # raised if root has no right to change the user
            os.setgroups([])
            os.setegid(_NOBODY)
            os.seteuid(_NOBODY)
            readable = all(os.access(path, os.R_OK, effective_ids=True) for path in paths)
            os.seteuid(0)
            os.setegid(0)
            if readable:
                os.setresgid(_NOBODY, _NOBODY, _NOBODY)
                os.setresuid(_NOBODY, _NOBODY, _NOBODY)
    header, none = (ctypes.c_uint32 * 2)(_CAPABILITIES_VERSION, 0), (ctypes.c_uint32 * 6)()
    _libc.capset(header, none)


def restrict_files(paths: Iterable[str]) -> str | None:
    """Lets this thread, and those that it will start, read below the paths and access no other files. Returns the
    reason if that is not possible.

    Must be called before there are other threads. If the kernel supports it, this also forbids TCP, sockets without a
    name in the file system, and signals to other processes.
    """
    version = _libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    if version < 1:
        return (
            f'Landlock is not available ({_reason()}): it needs Linux 5.13 or newer with "landlock" in its list of LSMs'
        )
    rights = (1 << _FILE_RIGHTS[max(known for known in _FILE_RIGHTS if known <= version)]) - 1
    attributes = (ctypes.c_uint64 * 3)(rights, 3, 3)
    size = 8 * (1 + (version >= _TCP_SINCE) + (version >= _SCOPES_SINCE))
    rules = _libc.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(size), ctypes.c_uint32(0))
    if rules < 0:
        return f"Landlock could not create a ruleset ({_reason()})"
    try:
        for path in paths:
            _allow(rules, path)
        _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        return (
            f"Landlock could not apply the ruleset ({_reason()})" if _libc.syscall(_RESTRICT_SELF, rules, 0) else None
        )
    finally:
        os.close(rules)


def _allow(rules: int, path: str) -> None:
    rights = _READ_FILE | _READ_DIRECTORY if os.path.isdir(path) else _READ_FILE
    opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    _libc.syscall(_ADD_RULE, rules, 1, struct.pack("<Qi", rights, opened), 0)
    os.close(opened)


def restrict_calls(machine: str, code: bytes | None) -> str | None:
    """Lets all threads make only the system calls that a filter allows. Returns the reason if that is not possible."""
    if code is None:
        return f'no list of system calls for the architecture "{machine}"; supported: {", ".join(_SECCOMP)}'
    instructions = ctypes.create_string_buffer(code, len(code))
    given = struct.pack("@HP", len(code) // 8, ctypes.addressof(instructions))
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if _libc.syscall(_SECCOMP[machine], 1, 1, given):  # a filter, for all threads
        return f"seccomp rejected the filter ({_reason()})"
    return None


def _reason() -> str:
    return os.strerror(ctypes.get_errno())


def what_is_open() -> Iterator[str]:
    """Attempts actions that must be refused; yields those that were not refused."""
    for action, attempt in _ATTEMPTS.items():
        try:
            attempt()
        except PermissionError:
            continue
        except OSError:  # it was not refused, but failed
            pass
        yield action


def _socket() -> None:
    import _socket as sockets

    sockets.socket().close()


def _fork() -> None:
    if not (child := os.fork()):
        os._exit(0)
    os.waitpid(child, 0)


#: An attempt that is not refused fails with another error than PermissionError, or does no harm.
_ATTEMPTS: dict[str, Callable[[], object]] = {
    "it can list the root directory": lambda: os.listdir("/"),
    "it can open a file for writing": lambda: os.close(os.open(os.devnull, os.O_WRONLY)),
    "it can rename files": lambda: os.rename("/dev/null/none", "/dev/null/other"),
    "it can open sockets": _socket,
    "it can start processes": _fork,
    "it can run programs": lambda: os.execv("/dev/null/none", ["none"]),
    "it can send signals to other processes": lambda: os.kill(os.getppid(), 0),
}
