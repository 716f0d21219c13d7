"""The error of a result that has no final instant yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from operators.core.errors import UserError

#: The most reasons that an error lists.
_MOST = 3
_HIDDEN = "it waits for a source that you may not read"
_HINT = "try again when it has results, or wait for them"


class NoFinalInstant(UserError):
    """A result has no final instant yet; it may have one later. `waits` says for what, by the source that it waits for;
    a caller who may not read a source does not learn its name and topic."""

    def __init__(self, result: str, waits: Sequence[tuple[str, str]] = ()) -> None:
        self._result, self._waits = result, tuple(waits)
        reasons = ", ".join([reason for _, reason in self._waits][:_MOST])
        super().__init__(f"{result} has no final instant yet{reasons and ': '}{reasons}", hint=_HINT)

    def waiting(self, waits: Sequence[tuple[str, str]]) -> NoFinalInstant:
        """The same error with what the result waits for."""
        return NoFinalInstant(self._result, waits)

    def with_readable_names(self, may_read: Callable[[str], bool]) -> NoFinalInstant:
        """The same error without the sources that the caller may not read."""
        shown = ((source, text) if may_read(source) else ("", _HIDDEN) for source, text in self._waits)
        return NoFinalInstant(self._result, [*dict.fromkeys(shown)])
