"""A problem that `dsms doctor` finds, with its repair."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning"]


@dataclass(frozen=True)
class Finding:
    """A problem: where it is, what it is, and what to do about it. An error may lose results or stop a process from
    working; a warning does neither. `repair` repairs it without loss, if that is possible."""

    severity: Severity
    place: str
    problem: str
    advice: str
    repair: Callable[[], None] | None = None
    #: Whether this examination has repaired it.
    repaired: bool = False

    def document(self) -> dict[str, object]:
        """As JSON.

        >>> Finding("warning", "topic t", "odd", "wait").document()["repairable"]
        False
        """
        return {
            "severity": self.severity,
            "place": self.place,
            "problem": self.problem,
            "advice": self.advice,
            "repairable": self.repair is not None,
            "repaired": self.repaired,
        }
