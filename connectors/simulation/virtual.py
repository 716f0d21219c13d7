"""Gives product code virtual time: while a simulation runs, its modules see stand-ins for clocks, threads and chance.

Product code must take these from the modules `time`, `threading`, `concurrent.futures`, `uuid`, `secrets` and `random`.
The stand-ins replace them where they are bound: in the globals of modules, in defaults of parameters, and in closures,
where dataclasses keep default factories.
"""

from __future__ import annotations

import concurrent.futures
import random
import secrets
import sys
import threading
import time
import types
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from random import Random
from typing import Any

from connectors.simulation.scheduler import Scheduler
from connectors.simulation.threads import (
    Clock,
    Condition,
    Event,
    Lock,
    Semaphore,
    Thread,
    ThreadPool,
    thread_local,
)

#: The packages whose modules get the stand-ins. tenacity, which repeats calls, waits by `time.sleep`.
_PACKAGES = ("dsms", "connectors", "operators", "tenacity")
_EXCEPT = ("connectors.simulation", "dsms.simulation")
#: What is replaced: functions and classes, by module. The modules themselves are replaced as well.
_REPLACED: Mapping[types.ModuleType, tuple[str, ...]] = {
    time: ("monotonic", "time", "time_ns", "monotonic_ns", "perf_counter", "perf_counter_ns", "sleep"),
    threading: ("Lock", "RLock", "Event", "Condition", "Semaphore", "Thread", "local"),
    concurrent.futures: ("ThreadPoolExecutor",),
    uuid: ("uuid4",),
    secrets: ("token_hex", "token_urlsafe", "token_bytes", "randbelow"),
    random: ("random", "uniform", "randrange", "choice", "shuffle"),
}
#: Binds another object in a place where product code has bound a replaced one.
Bind = Callable[[Any], None]


class Module:
    """A module of the standard library with other functions in place of some."""

    def __init__(self, module: types.ModuleType, functions: Mapping[str, Any]) -> None:
        self._module = module
        self.__dict__.update(functions)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


@contextmanager
def virtual(scheduler: Scheduler, others: Iterable[tuple[Any, Any]] = ()) -> Iterator[None]:
    """While the block runs, product code uses the scheduler's time, tasks and randomness, and the second of each pair
    of `others` in place of the first. Modules that are imported inside the block do not: import them before."""
    pairs = list(others)
    standins = _standins(scheduler) | {id(old): new for old, new in pairs}
    places = _places([old for old, _ in pairs])
    try:
        for real, bind in places:
            bind(standins[id(real)])
        yield
    finally:
        for real, bind in places:
            bind(real)


def _standins(scheduler: Scheduler) -> dict[int, Any]:
    """The stand-in of each replaced object, by the identity of the object."""
    clock, chance = Clock(scheduler), Random(scheduler.random.random())
    functions: dict[types.ModuleType, dict[str, Any]] = {
        time: {name: getattr(clock, name) for name in _REPLACED[time]},
        threading: {
            "Lock": partial(Lock, scheduler),
            "RLock": partial(Lock, scheduler, reentrant=True),
            "Event": partial(Event, scheduler),
            "Condition": partial(Condition, scheduler),
            "Semaphore": partial(Semaphore, scheduler),
            "Thread": partial(Thread, scheduler),
            "local": thread_local,
        },
        concurrent.futures: {"ThreadPoolExecutor": partial(ThreadPool, scheduler)},
        uuid: {"uuid4": lambda: uuid.UUID(int=chance.getrandbits(128), version=4)},
        secrets: {
            "token_hex": lambda count=32: chance.randbytes(count).hex(),
            "token_urlsafe": lambda count=32: chance.randbytes(count).hex(),
            "token_bytes": lambda count=32: chance.randbytes(count),
            "randbelow": chance.randrange,
        },
        random: {name: getattr(chance, name) for name in _REPLACED[random]},
    }
    standins: dict[int, Any] = {}
    for module, names in functions.items():
        standins[id(module)] = Module(module, names)
        standins |= {id(getattr(module, name)): function for name, function in names.items()}
    return standins


#: The last result of `_places`, for the number of modules and the replaced objects.
_known: dict[tuple[int, ...], list[tuple[Any, Bind]]] = {}


def _places(others: list[Any]) -> list[tuple[Any, Bind]]:
    """Where product code has bound replaced objects, with the objects."""
    replaced: dict[int, Any] = {id(other): other for other in others}
    for module, names in _REPLACED.items():
        replaced |= {id(module): module} | {id(each): each for each in (getattr(module, name) for name in names)}
    key = (len(sys.modules), *replaced)
    if key not in _known:
        _known.clear()
        _known[key] = list(_all_places(replaced))
    return _known[key]


def _all_places(replaced: Mapping[int, Any]) -> Iterator[tuple[Any, Bind]]:
    for name, module in list(sys.modules.items()):
        product = name.split(".")[0] in _PACKAGES and not name.startswith(_EXCEPT)
        if product and isinstance(module, types.ModuleType):
            yield from _in_module(module, replaced)


def _in_module(module: types.ModuleType, replaced: Mapping[int, Any]) -> Iterator[tuple[Any, Bind]]:
    for key, value in vars(module).items():
        if id(value) in replaced:
            yield value, partial(vars(module).__setitem__, key)
        elif getattr(value, "__module__", None) == module.__name__:
            functions = vars(value).values() if isinstance(value, type) else (value,)
            for function in functions:
                if isinstance(function, types.FunctionType):
                    yield from _in_function(function, replaced)


def _in_function(function: types.FunctionType, replaced: Mapping[int, Any]) -> Iterator[tuple[Any, Bind]]:
    """The places among the defaults and in the closure of a function."""
    for at, value in enumerate(function.__defaults__ or ()):
        if id(value) in replaced:
            yield value, partial(_set_default, function, at)
    named: dict[str, Any] = function.__kwdefaults__ or {}
    for key, value in named.items():
        if id(value) in replaced:
            yield value, partial(named.__setitem__, key)
    for cell in function.__closure__ or ():
        if (value := _content(cell)) is not None and id(value) in replaced:
            yield value, partial(setattr, cell, "cell_contents")


def _set_default(function: types.FunctionType, at: int, value: Any) -> None:
    defaults = function.__defaults__ or ()
    function.__defaults__ = (*defaults[:at], value, *defaults[at + 1 :])


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # the cell is empty
        return None
