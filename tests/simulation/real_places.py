"""Looks for what a simulation does not replace: `python -m tests.simulation.real_places` prints a line for each.

Product code must reach clocks, threads and chance only where `connectors/simulation/virtual.py` replaces them. So no
module of the product may be imported first while a simulation runs, and no object that lives as long as the modules may
hold a replaced function, class or module in another place.
"""

from __future__ import annotations

import concurrent.futures
import gc
import random
import secrets
import sys
import threading
import time
import types
import uuid
from collections.abc import Iterator
from functools import partial

from structlog.testing import capture_logs

from connectors.simulation.scheduler import Scheduler
from connectors.simulation.virtual import virtual
from dsms.simulation.run import run
from tests.simulation.draw import drawn

_SEEDS = range(1, 7)
_PRODUCT, _OWN = ("dsms.", "connectors.", "operators."), ("connectors.simulation", "dsms.simulation")
#: The real functions and classes, and the modules.
_REAL: dict[int, str] = {
    id(real): f"{module.__name__}.{name}"
    for module, names in {
        time: ("monotonic", "time", "time_ns", "monotonic_ns", "perf_counter", "perf_counter_ns", "sleep"),
        threading: ("Lock", "RLock", "Event", "Condition", "Semaphore", "Thread", "local", "Timer", "Barrier"),
        concurrent.futures: ("ThreadPoolExecutor",),
        uuid: ("uuid1", "uuid4"),
        secrets: ("token_hex", "token_urlsafe", "token_bytes", "randbelow", "choice"),
        random: ("random", "uniform", "randrange", "randint", "choice", "shuffle", "sample"),
    }.items()
    for name, real in ((name, getattr(module, name)) for name in names)
} | {id(module): module.__name__ for module in (time, threading, concurrent.futures, uuid, secrets, random)}
_CONTAINERS = (dict, list, tuple, set, frozenset, partial, types.CellType, types.MethodType, types.MappingProxyType)
_WRAPPERS = (property, classmethod, staticmethod)


def _is_product(name: object) -> bool:
    return isinstance(name, str) and name.startswith(_PRODUCT) and not name.startswith(_OWN)


def imported_while_running() -> Iterator[str]:
    """The modules of the product that are first imported while histories run."""
    before = set(sys.modules)
    for seed in _SEEDS:
        run(drawn(seed).history)
    yield from (
        f"imported while a simulation runs: {name}" for name in sorted(set(sys.modules) - before) if _is_product(name)
    )


def held() -> Iterator[str]:
    """The places from which real clocks, threads and chance can be reached."""
    known: set[int] = set()
    for name, module in sorted(sys.modules.items()):
        if _is_product(name):
            for key, value in vars(module).items():
                yield from _below(value, f"{name}.{key}", known)


def _below(start: object, place: str, known: set[int]) -> Iterator[str]:
    """The real things that can be reached from an object without leaving the product."""
    waiting = [start]
    while waiting:
        value = waiting.pop()
        if id(value) in _REAL:
            yield f"{place} holds {_REAL[id(value)]}"
        elif id(value) not in known and _is_searched(value):
            known.add(id(value))
            waiting += _parts(value)


def _is_searched(value: object) -> bool:
    if isinstance(value, types.ModuleType):
        return False
    if isinstance(value, types.FunctionType | type):
        return _is_product(value.__module__)
    return isinstance(value, (*_CONTAINERS, *_WRAPPERS)) or _is_product(type(value).__module__)


def _parts(value: object) -> list[object]:
    """What an object holds; of a function, not the globals of its module."""
    if isinstance(value, types.FunctionType):
        return [value.__defaults__, value.__kwdefaults__, *(value.__closure__ or ()), vars(value)]
    return gc.get_referents(value)


def main() -> None:
    """Prints what is not replaced, then in how many places there is something to replace."""
    with capture_logs():
        lines = [*imported_while_running()]
    with virtual(Scheduler(1)):
        lines += held()
    sys.stdout.writelines(f"{line}\n" for line in lines)
    sys.stdout.write(f"replaced: {len(list(held()))}\n")


if __name__ == "__main__":
    main()
