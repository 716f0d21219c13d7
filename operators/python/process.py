"""The program of the process that runs user code: `python -I process.py MODE`.

It first applies the restrictions that must be in place before there are threads. Then it loads Arrow and runs `child`,
which applies and checks the other restrictions before it runs user code. In mode `require`, user code runs only if all
restrictions hold; in mode `prefer`, the process applies those that the platform supports; in mode `off`, only its
limits apply. Of this project, it imports only modules in its directory, which it finds by their paths.
"""

import importlib.abc
import importlib.util
import os
import resource
import sys
from collections.abc import Callable
from typing import Any, cast


def sibling_module(name: str) -> Callable[[], Any]:
    """Reads a module of this directory; returns a function that runs it without importing its package."""
    hidden = f"dsms {name}"  # a name that no import in user code can have
    spec = importlib.util.spec_from_file_location(hidden, os.path.join(os.path.dirname(__file__), f"{name}.py"))
    assert spec is not None
    code = cast(importlib.abc.InspectLoader, spec.loader).get_code(hidden)
    assert code is not None

    def run() -> Any:
        sys.modules[hidden] = module = importlib.util.module_from_spec(spec)
        exec(code, module.__dict__)
        return module

    return run


def restrict_before_threads(confinement: Any) -> list[str]:
    """Applies the restrictions that must be in place before there are threads; returns why any does not hold."""
    paths = confinement.readable_paths()
    confinement.give_up_rights(paths)
    return [why for why in [confinement.restrict_files(paths)] if why is not None]


def restrict_all_threads(confinement: Any, calls: Any) -> list[str]:
    """Applies the restrictions that hold for all threads; returns why any of them does not hold."""
    machine = os.uname().machine
    why = confinement.restrict_calls(machine, calls.program(machine, os.getpid()))
    return [*confinement.what_is_open()] if why is None else [why]


def data_bytes(status: int) -> int:
    """Returns the memory of this process that RLIMIT_DATA includes, from its file in /proc."""
    with os.fdopen(status) as lines:
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmData"))


def main(mode: str) -> None:
    """Restricts this process and runs the child."""
    confinement, calls, child = (
        sibling_module("confinement")(),
        sibling_module("system_calls")(),
        sibling_module("child"),
    )
    # opened now, because they cannot be opened later
    status, nowhere = os.open("/proc/self/status", os.O_RDONLY), os.open(os.devnull, os.O_RDWR)
    missing = [] if mode == "off" else restrict_before_threads(confinement)
    confinement.die_with_parent()
    os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"
    conversation = child()
    os.environ.clear()

    def confine(memory: int) -> list[str]:
        limit = data_bytes(status) + memory
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        confinement.limit_files()
        if mode != "off":
            missing.extend(restrict_all_threads(confinement, calls))
        return missing

    conversation.main(confine, nowhere, strict=mode == "require")


if __name__ == "__main__":
    main(sys.argv[1])
