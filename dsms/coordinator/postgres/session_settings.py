"""The settings of a session in addition to PostgreSQL's: `SET dsms.wait = '10 s'`, `SHOW dsms.instant`."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from dsms.coordinator.postgres.parameters import without_comments
from dsms.model.freshness import answered_at
from dsms.model.statement_result import StatementResult
from operators.core.errors import UserError

_SET = re.compile(
    r"\s*set\s+(?:session\s+|(local)\s+)?dsms\.(\w+)\s*(?:=|\bto\b)\s*(.+?)\s*;?\s*", re.IGNORECASE | re.DOTALL
)
_SHOW = re.compile(r"\s*show\s+dsms\.(\w+)\s*;?\s*", re.IGNORECASE)
_RESET = re.compile(r"\s*(?:reset\s+(?:all|dsms\.(\w+))|discard\s+all)\s*;?\s*", re.IGNORECASE)
_SECONDS = re.compile(r"(\d{1,5}(?:\.\d{1,3})?)\s*(ms|s|min|)", re.IGNORECASE)
_UNITS = {"ms": 0.001, "": 1.0, "s": 1.0, "min": 60.0}
_ON, _OFF = ("on", "true", "yes", "1"), ("off", "false", "no", "0")
_LONGEST_WAIT_S = 3_600.0


@dataclass
class SessionSettings:
    """The settings of one session, and the result of its last SELECT. `wait_s`: for how many seconds a SELECT waits for
    a result that has no final instant yet; `freshness`: whether a notice tells the instant of each SELECT."""

    wait_s: float = 0.0
    freshness: bool = False
    last: StatementResult | None = None
    #: Inside a transaction: the settings that hold after its end, which SET LOCAL does not change.
    _after: tuple[float, bool] | None = None

    def answer(self, sql: str) -> StatementResult | None:
        """The answer to a statement about these settings; None for any other. Raises UserError for a wrong value.

        >>> settings = SessionSettings()
        >>> settings.answer("SET dsms.wait = '1 min'").statement, settings.wait_s
        ('SET', 60.0)
        >>> settings.answer("SHOW dsms.wait").rows
        (('60 s',),)
        """
        if "dsms." not in (plain := without_comments(sql)).lower() and not _RESET.fullmatch(plain):
            return None
        if (found := _SET.fullmatch(plain)) is not None:
            self._set_for(found[2].lower(), found[3].strip().strip("'").strip(), local=found[1] is not None)
            return StatementResult("SET", "")
        if (found := _SHOW.fullmatch(plain)) is not None:
            return StatementResult("SHOW", "", (f"dsms.{found[1].lower()}",), ((self._shown(found[1].lower()),),))
        if (found := _RESET.fullmatch(plain)) is not None:
            self.last = self.last if found[1] else None
            for name in [found[1].lower()] if found[1] else ["wait", "freshness"]:
                self._set(name, "default")
        return None  # the other settings are reset, too

    def transaction(self, inside: bool | None) -> None:
        """Notes whether the session is inside a transaction; None: as before. At the end of one, what SET LOCAL set
        ends."""
        if inside:
            self._after = self._after or (self.wait_s, self.freshness)
        elif inside is False and self._after is not None:
            (self.wait_s, self.freshness), self._after = self._after, None

    def noted(self, result: StatementResult) -> StatementResult:
        """The result of a statement, with a notice of its instant if the session wants it."""
        if result.instant is None:
            return result
        self.last = replace(result, rows=())
        told = answered_at(result.instant, result.behind_ms).removeprefix(" at ")
        return replace(result, notices=(*result.notices, told)) if self.freshness else result

    def _set_for(self, name: str, value: str, *, local: bool) -> None:
        """Sets a value, for the session or until the end of the transaction; outside of one, SET LOCAL has no
        effect."""
        before = self.wait_s, self.freshness
        self._set(name, value)
        if local and self._after is None:
            self.wait_s, self.freshness = before
        elif not local and self._after is not None:
            wait_s, freshness = self._after
            self._after = (self.wait_s, freshness) if name == "wait" else (wait_s, self.freshness)

    def _set(self, name: str, value: str) -> None:
        match name, value.lower():
            case "wait", "default":
                self.wait_s = 0.0
            case "wait", _:
                self.wait_s = seconds_of(value, "dsms.wait")
            case "freshness", written if written in (*_ON, *_OFF, "default"):
                self.freshness = written in _ON
            case "freshness", _:
                raise UserError(f'dsms.freshness is "on" or "off", not "{value}"')
            case _:
                raise _unknown(name)

    def _shown(self, name: str) -> str | None:
        last = self.last
        match name:
            case "wait":
                return f"{self.wait_s:g} s"
            case "freshness":
                return "on" if self.freshness else "off"
            case "instant":
                return None if last is None else str(last.instant)
            case "behind":
                return None if last is None or last.behind_ms is None else f"{last.behind_ms} ms"
            case _:
                raise _unknown(name)


def seconds_of(value: str, name: str) -> float:
    """The seconds of a time as text. Raises UserError if it is not a time of at most an hour; `name` is what it is for.

    >>> seconds_of("1s", "the timeout"), seconds_of("1500 ms", "the timeout"), seconds_of("2", "the timeout")
    (1.0, 1.5, 2.0)
    """
    found = _SECONDS.fullmatch(value)
    seconds = float(found[1]) * _UNITS[found[2].lower()] if found is not None else _LONGEST_WAIT_S + 1
    if seconds > _LONGEST_WAIT_S:
        raise UserError(f'{name} is a time of at most one hour, not "{value}"', hint="write a time such as '10 s'")
    return seconds


def _unknown(name: str) -> UserError:
    hint = "SET knows dsms.wait and dsms.freshness, SHOW also dsms.instant and dsms.behind"
    return UserError(f'unknown setting "dsms.{name}"', hint=hint)
