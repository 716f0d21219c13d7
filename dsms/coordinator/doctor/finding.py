"""What `dsms doctor` finds, and how it is repaired."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning"]


@dataclass(frozen=True)
class Finding:
    """Something that is not as it should be: where, what, and what to do about it. An error may cost results or keeps a
    process from its work; a warning costs neither. `repair` mends it without loss, where that is possible."""

    severity: Severity
    place: str
    problem: str
    advice: str
    repair: Callable[[], None] | None = None
    #: Whether it was repaired just now.
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
