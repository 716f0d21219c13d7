"""The search for matches in the rows of a partition. After a change, it repeats only attempts that read changed
rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from operators.patterns.pattern import Instruction

#: The limit of the steps of an attempt if conditions depend on the match so far: then all paths may have to be tried.
#: Other attempts visit each step at most once for each row.
MAX_STEPS = 10_000


@dataclass(frozen=True, slots=True)
class Skip:
    """AFTER MATCH SKIP: the search continues after the last row (`past`), at the row after the first (`next`), or at
    the first or last row of a variable."""

    to: Literal["past", "next", "first", "last"] = "past"
    variable: str = ""


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt to match from row `start` on: the variables of the consecutive rows of the match (None: no match), and
    the last row that the attempt read (`seen`). `gave_up`: it stopped after `MAX_STEPS`, and the search ends there."""

    start: int
    variables: tuple[str, ...] | None
    seen: int
    gave_up: bool = False


#: The variables of the rows matched so far, as a linked list from the last one: (path before, variable); None if empty.
Path = tuple["Path", str] | None
#: The state of an attempt: the number of a step, the next row, and the path to it.
State = tuple[int, int, Path]
_LOOKING = ("row", "start", "end")
#: States (step, row) that lead to no match, with the last row that was read to establish this.
Failed = dict[tuple[int, int], int]
#: Whether a variable can match a row next, given the first row of the attempt and the path to the row.
Holds = Callable[[str, int, int, Path], bool]


@dataclass(frozen=True)
class Search:
    """A search by a program. `local`: no condition depends on other rows of the match, so an attempt visits no state
    twice. `has_within`: WITHIN limits the duration of matches; without it, a state that failed in one attempt fails in
    all. `ahead` is the number of rows after a row that its condition reads."""

    program: Sequence[Instruction]
    skip: Skip = Skip()
    local: bool = True
    ahead: int = 0
    has_within: bool = False

    def attempts(self, count: int, holds: Holds, before: Sequence[Attempt] = (), same: int = 0) -> list[Attempt]:
        """All attempts in `count` rows, in the order of their first rows. `before` are the attempts in an earlier state
        of the rows. The first `same` rows have not changed since: attempts that read only these are reused.

        >>> from operators.patterns.pattern import parse_pattern, program_of
        >>> rows = "abbcab"
        >>> holds = lambda variable, at, start, path: rows[at].upper() == variable
        >>> tried = Search(program_of(parse_pattern("A B+"))).attempts(6, holds)
        >>> [(attempt.start, attempt.variables) for attempt in tried]
        [(0, ('A', 'B', 'B')), (3, None), (4, ('A', 'B'))]
        """
        done = []
        for attempt in before:
            if attempt.seen + self.ahead >= same:
                break
            done.append(attempt)
        start = self._next_start(done[-1]) if done else 0
        failed: Failed = {}
        while start < count and not (done and done[-1].gave_up):
            done.append(self.attempt(start, count, holds, failed))
            start = self._next_start(done[-1])
        return done

    def attempt(self, start: int, count: int, holds: Holds, failed: Failed) -> Attempt:
        """The preferred match from a row on. The states of a failed attempt are added to `failed`."""
        states = _States(failed, start)
        open_: list[State] = [(0, start, None)]
        steps = 0
        while open_:
            steps += 1
            if steps > MAX_STEPS and not self.local:
                return Attempt(start, None, count, gave_up=True)
            number, at, path = open_.pop()
            if self.local and not states.enters(number, at):
                continue
            step = self.program[number]
            if step.kind == "match":
                return Attempt(start, tuple(listed(path)), states.seen)
            if step.kind in _LOOKING:
                states.seen = max(states.seen, at)
            if step.kind == "row":
                if at < count and holds(step.variable, at, start, path):
                    open_.append((number + 1, at + 1, (path, step.variable)))
            else:
                open_ += ((next_, at, path) for next_ in _without_row(step, number, at, count))
        if not self.has_within:
            failed |= dict.fromkeys(states.visited, states.seen)
        return Attempt(start, None, states.seen)

    def _next_start(self, attempt: Attempt) -> int:
        """The row at which the search continues. It is after the first row of the match; otherwise the search would
        never end."""
        start, found = attempt.start, attempt.variables
        if found is None or self.skip.to == "next":
            return start + 1
        if self.skip.to == "past":
            return start + len(found)
        if self.skip.variable not in found:
            return start + len(found)
        first = found.index(self.skip.variable)
        last = len(found) - 1 - found[::-1].index(self.skip.variable)
        return max(start + (first if self.skip.to == "first" else last), start + 1)


@dataclass
class _States:
    """The states that an attempt has visited, and the last row that it has read."""

    failed: Failed
    seen: int
    visited: set[tuple[int, int]] = field(default_factory=set)

    def enters(self, number: int, at: int) -> bool:
        """Whether a state is new; adds it to the visited ones."""
        state = number, at
        if (last := self.failed.get(state)) is not None:
            self.seen = max(self.seen, last)
            return False
        if state in self.visited:
            return False
        self.visited.add(state)
        return True


def _without_row(step: Instruction, number: int, at: int, count: int) -> tuple[int, ...]:
    """The steps that may follow a step that consumes no row, the preferred one last."""
    match step.kind:
        case "split":
            return step.second, step.first
        case "jump":
            return (step.first,)
        case "start":
            return (number + 1,) if at == 0 else ()
        case _:
            return (number + 1,) if at == count else ()


def listed(path: Path) -> list[str]:
    """The variables of a path, the first one first.

    >>> listed(((None, "A"), "B"))
    ['A', 'B']
    """
    names = []
    while path is not None:
        path, name = path
        names.append(name)
    return names[::-1]
