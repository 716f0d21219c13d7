"""Projections below row windows."""

from __future__ import annotations

from dataclasses import replace

from dsms.model import logical
from dsms.optimizer.rules.conjuncts import total
from operators.expressions import Column


def project_through_row_window(node: logical.Node) -> logical.Node | None:
    """π_f(ω_{K,N}(S)) = ω_{K,N}(π_f(S)), if f is total and keeps each column of K. PIPES rules 10.11 and 10.12.

    A row for which f is in fault would no longer be counted below the window.
    """
    match node:
        case logical.Project(logical.RowWindow() as window, outputs) if all(total(one) for _, one in outputs):
            names = {one.name: name for name, one in reversed(outputs) if isinstance(one, Column)}
            if not set(window.partition) <= set(names):
                return None
            partition = tuple(names[name] for name in window.partition)
            return replace(window, input=logical.Project(window.input, outputs), partition=partition)
    return None
