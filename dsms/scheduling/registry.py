"""Scheduling policies by name."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from dsms.scheduling.policies import Fifo, Greedy, Policy, RoundRobin, SteepestChain, WeightedFair
from operators.core.errors import UserError

POLICIES: Mapping[str, Policy] = {
    "round_robin": RoundRobin(),
    "fifo": Fifo(),
    "greedy": Greedy(),
    "chain": SteepestChain(),
    "weighted_fair": WeightedFair(),
}
_BOUNDED = "chain(latency = 2 s)"
_UNITS = {"ms": 0.001, "s": 1.0, "second": 1.0, "seconds": 1.0, "minute": 60.0, "minutes": 60.0}
_CALL = re.compile(r"\s*(\w+)\s*(?:\((.*)\)\s*)?", re.DOTALL)
_LATENCY = re.compile(r"\s*latency\s*=\s*(\d+(?:\.\d+)?(?:e[+-]?\d+)?)\s*([a-z]+)\s*")


def parse_policy(text: str) -> Policy:
    """The policy that a text names; `str` returns its text. Raises UserError if there is no such policy.

    >>> parse_policy("Fifo"), parse_policy("chain(latency = 500 ms)")
    (Fifo(), SteepestChain(latency_s=0.5))
    >>> parse_policy("lifo")
    Traceback (most recent call last):
    ...
    operators.core.errors.UserError: policy "lifo" not found; have: round_robin, fifo, greedy, chain, ...
    """
    call = _CALL.fullmatch(text.lower())
    name, options = call.groups() if call else (text, None)
    if name not in POLICIES:
        raise UserError(f'policy "{name}" not found', hint=f"have: {', '.join(choices())}")
    return POLICIES[name] if options is None else _bounded(name, options)


def choices() -> tuple[str, ...]:
    """The spellings of all policies."""
    return tuple(text for name in POLICIES for text in ((name, _BOUNDED) if name == "chain" else (name,)))


def _bounded(name: str, options: str) -> Policy:
    if name != "chain":
        raise UserError(f'policy "{name}" takes no options', hint=f"have: {', '.join(choices())}")
    latency = _LATENCY.fullmatch(options)
    latency_s = float(latency[1]) * _UNITS.get(latency[2], 0) if latency else 0
    if not 0 < latency_s < math.inf:
        raise UserError(f'invalid option "{options.strip()}" of policy "chain"', hint=f"for example {_BOUNDED}")
    return SteepestChain(latency_s)
