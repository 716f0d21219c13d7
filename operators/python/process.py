"""The program of the process in which code of users runs: `python -I process.py MODE`.

It gives up what is not needed: first what has to be given up before there are threads, then, with Arrow loaded, all
else. It tries whether that holds, and runs `child`. With the mode `require` no code of users runs unless all was given
up, with `prefer` the process gives up what it can, with `off` its limits alone hold. It imports nothing of ours but its
neighbours, which it finds by their paths.
"""

import importlib.abc
import importlib.util
import os
import resource
import sys
from collections.abc import Callable
from typing import Any, cast


def neighbour(name: str) -> Callable[[], Any]:
    """What runs a module of this directory, which is read now, without the package that it belongs to."""
    hidden = f"dsms {name}"  # which no import of a user can name
    spec = importlib.util.spec_from_file_location(hidden, os.path.join(os.path.dirname(__file__), f"{name}.py"))
    assert spec is not None
    code = cast(importlib.abc.InspectLoader, spec.loader).get_code(hidden)
    assert code is not None

    def run() -> Any:
        sys.modules[hidden] = module = importlib.util.module_from_spec(spec)
        exec(code, module.__dict__)
        return module

    return run


def first_steps(confinement: Any) -> list[str]:
    """What holds for the threads to come; returns why it does not hold."""
    paths = confinement.readable_paths()
    confinement.give_up_rights(paths)
    return [why for why in [confinement.restrict_files(paths)] if why is not None]


def last_steps(confinement: Any, calls: Any) -> list[str]:
    """What holds from here on; returns why it does not hold."""
    machine = os.uname().machine
    why = confinement.restrict_calls(machine, calls.program(machine, os.getpid()))
    return [*confinement.what_is_open()] if why is None else [why]


def data_bytes(status: int) -> int:
    """The memory of this process that its limit counts, from its file in /proc."""
    with os.fdopen(status) as lines:
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmData"))


def main(mode: str) -> None:
    """Runs the child."""
    confinement, calls, child = neighbour("confinement")(), neighbour("system_calls")(), neighbour("child")
    # opened now, because they cannot be opened later
    status, nowhere = os.open("/proc/self/status", os.O_RDONLY), os.open(os.devnull, os.O_RDWR)
    missing = [] if mode == "off" else first_steps(confinement)
    confinement.die_with_parent()
    os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"
    conversation = child()
    os.environ.clear()

    def confine(memory: int) -> list[str]:
        limit = data_bytes(status) + memory
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        confinement.limit_files()
        if mode != "off":
            missing.extend(last_steps(confinement, calls))
        return missing

    conversation.main(confine, nowhere, strict=mode == "require")


if __name__ == "__main__":
    main(sys.argv[1])
