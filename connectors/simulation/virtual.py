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
from collections.abc import Callable, Iterable, Iterator
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
Undo = Callable[[], None]


class Module:
    """A module of the standard library with other functions in place of some."""

    def __init__(self, module: types.ModuleType, functions: dict[str, Any]) -> None:
        self._module = module
        self.__dict__.update(functions)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


@contextmanager
def virtual(scheduler: Scheduler, others: Iterable[tuple[Any, Any]] = ()) -> Iterator[None]:
    """While the block runs, product code uses the scheduler's time, tasks and randomness, and the second of each pair
    of `others` in place of the first. Modules that are imported inside the block do not: import them before."""
    undo: list[Undo] = []
    try:
        _replace_everywhere(_replacements(scheduler) | {id(old): (old, new) for old, new in others}, undo)
        yield
    finally:
        for back in reversed(undo):
            back()


def _replacements(scheduler: Scheduler) -> dict[int, tuple[Any, Any]]:
    """The stand-in of each replaced object, by the identity of the object, which comes with it."""
    clock, chance = Clock(scheduler), Random(scheduler.random.random())
    threads = {
        "Lock": partial(Lock, scheduler),
        "RLock": partial(Lock, scheduler, reentrant=True),
        "Event": partial(Event, scheduler),
        "Condition": partial(Condition, scheduler),
        "Semaphore": partial(Semaphore, scheduler),
        "Thread": partial(Thread, scheduler),
        "local": thread_local,
    }
    times = {name: getattr(clock, name) for name in ("monotonic", "time", "time_ns", "monotonic_ns", "sleep")}
    times |= {"perf_counter": clock.perf_counter, "perf_counter_ns": clock.perf_counter_ns}
    ids = {"uuid4": lambda: uuid.UUID(int=chance.getrandbits(128), version=4)}
    tokens = {
        "token_hex": lambda count=32: chance.randbytes(count).hex(),
        "token_urlsafe": lambda count=32: chance.randbytes(count).hex(),
        "token_bytes": chance.randbytes,
        "randbelow": chance.randrange,
    }
    pool = {"ThreadPoolExecutor": partial(ThreadPool, scheduler)}
    chances = {name: getattr(chance, name) for name in ("random", "uniform", "randrange", "choice", "shuffle")}
    modules = (
        (time, times), (threading, threads), (uuid, ids), (secrets, tokens), (concurrent.futures, pool),
        (random, chances),
    )  # fmt: skip
    pairs: list[tuple[Any, Any]] = []
    for module, functions in modules:
        pairs.append((module, Module(module, functions)))
        pairs += [(getattr(module, name), function) for name, function in functions.items()]
    return {id(old): (old, new) for old, new in pairs}


def _replace_everywhere(replacements: dict[int, tuple[Any, Any]], undo: list[Undo]) -> None:
    for name, module in list(sys.modules.items()):
        if _is_product(name) and isinstance(module, types.ModuleType):
            for key, value in list(vars(module).items()):
                if id(value) in replacements:
                    _set(vars(module), key, replacements[id(value)][1], undo)
                elif getattr(value, "__module__", None) == name:
                    _replace_within(value, replacements, undo)


def _is_product(name: str) -> bool:
    return name.split(".")[0] in _PACKAGES and not name.startswith(_EXCEPT)


def _replace_within(value: Any, replacements: dict[int, tuple[Any, Any]], undo: list[Undo]) -> None:
    """Replaces objects in the defaults and closures of a function, or of the functions of a class."""
    if isinstance(value, type):
        for member in list(vars(value).values()):
            if isinstance(member, types.FunctionType):
                _replace_in_function(member, replacements, undo)
    elif isinstance(value, types.FunctionType):
        _replace_in_function(value, replacements, undo)


def _replace_in_function(
    function: types.FunctionType, replacements: dict[int, tuple[Any, Any]], undo: list[Undo]
) -> None:
    defaults = function.__defaults__
    if defaults and any(id(each) in replacements for each in defaults):
        function.__defaults__ = tuple(replacements.get(id(each), (each, each))[1] for each in defaults)
        undo.append(lambda: setattr(function, "__defaults__", defaults))
    named: dict[str, Any] = function.__kwdefaults__ or {}
    for key, each in list(named.items()):
        if id(each) in replacements:
            _set(named, key, replacements[id(each)][1], undo)
    for cell in function.__closure__ or ():
        _replace_cell(cell, replacements, undo)


def _replace_cell(cell: types.CellType, replacements: dict[int, tuple[Any, Any]], undo: list[Undo]) -> None:
    try:
        before = cell.cell_contents
    except ValueError:  # the cell is empty
        return
    if id(before) in replacements:
        cell.cell_contents = replacements[id(before)][1]
        undo.append(lambda: setattr(cell, "cell_contents", before))


def _set(values: dict[str, Any], key: str, value: Any, undo: list[Undo]) -> None:
    before = values[key]
    values[key] = value
    undo.append(lambda: values.__setitem__(key, before))
