"""A backend for Hypothesis that draws values evenly, and each case independently of the earlier ones.

Hypothesis prefers small and unusual inputs; in a grammar of queries, rare operators would then hardly occur.
Hypothesis reduces failing cases as usual.
"""

from __future__ import annotations

from hypothesis.internal.conjecture.providers import AVAILABLE_PROVIDERS, HypothesisProvider

BACKEND = "even"


class EvenProvider(HypothesisProvider):
    """Draws all integers of a range with equal probability; everything else is as in Hypothesis."""

    def draw_integer(self, min_value=None, max_value=None, **options):
        """An integer from the range, all equally likely."""
        if min_value is None or max_value is None or options.get("weights"):
            return super().draw_integer(min_value, max_value, **options)
        return self._random.randint(min_value, max_value)


def install() -> str:
    """Registers the backend; returns its name."""
    AVAILABLE_PROVIDERS[BACKEND] = f"{__name__}.{EvenProvider.__name__}"
    return BACKEND
