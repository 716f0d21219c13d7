"""A backend for Hypothesis that draws evenly and every case anew: no favoured values, no variations of earlier cases.

Hypothesis looks for small and strange inputs; in a grammar of queries that leaves rare operators undrawn. What fails is
reduced by Hypothesis as ever.
"""

from __future__ import annotations

from hypothesis.internal.conjecture.providers import AVAILABLE_PROVIDERS, HypothesisProvider

BACKEND = "even"


class EvenProvider(HypothesisProvider):
    """Integers of a range are all as likely; the rest is Hypothesis' own."""

    def draw_integer(self, min_value=None, max_value=None, **options):
        """An integer of the range."""
        if min_value is None or max_value is None or options.get("weights"):
            return super().draw_integer(min_value, max_value, **options)
        return self._random.randint(min_value, max_value)


def install() -> str:
    """The name of the backend."""
    AVAILABLE_PROVIDERS[BACKEND] = f"{__name__}.{EvenProvider.__name__}"
    return BACKEND
