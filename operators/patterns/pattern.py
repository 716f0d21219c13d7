"""Row patterns: regular expressions over pattern variables, their parser, and the programs that match them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import permutations
from typing import Literal

from operators.core.errors import UserError

#: The limit of the instructions of a program, in which repetitions such as {1,1000} are expanded.
MAX_INSTRUCTIONS = 2_000
#: The limit of the parts of PERMUTE, which is replaced by all orders of its parts.
MAX_PERMUTED = 5
_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_TOKEN = re.compile(r'\s*([A-Za-z_]\w*|"(?:[^"]|"")*"|\d+|\S)')


@dataclass(frozen=True, slots=True)
class Variable:
    """One row that satisfies the condition of a variable."""

    name: str


@dataclass(frozen=True, slots=True)
class Sequence:
    """Parts one after the other."""

    parts: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several parts; those written first are preferred."""

    parts: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """A part `least` to `most` times (None: unbounded): as often as possible or, if `reluctant`, as rarely."""

    part: Pattern
    least: int
    most: int | None
    reluctant: bool = False


@dataclass(frozen=True, slots=True)
class Anchor:
    """The start or the end of the partition."""

    end: bool


Pattern = Variable | Sequence | Choice | Repeat | Anchor


@dataclass(frozen=True, slots=True)
class Instruction:
    """A step of a program. `row` consumes a row that a variable matches; `split` continues at `first` and, if that
    fails, at `second`; `jump` continues at `first`; `start` and `end` succeed only at the start or end of the
    partition; `match` ends with a match."""

    kind: Literal["row", "split", "jump", "start", "end", "match"]
    variable: str = ""
    first: int = 0
    second: int = 0


def parse_pattern(text: str) -> Pattern:
    """Parses a pattern. Raises UserError if the text is not a pattern, can match an empty sequence, or is too long.

    >>> parse_pattern("A b+? (C | D){2,}").parts[1]
    Repeat(part=Variable(name='B'), least=1, most=None, reluctant=True)
    """
    parser = _Parser([match[1] for match in _TOKEN.finditer(_COMMENT.sub(" ", text))])
    pattern = parser.choice()
    if parser.ahead:
        raise UserError(f'unexpected "{parser.ahead}" in PATTERN')
    if can_be_empty(pattern):
        hint = "make at least one variable mandatory, for example A+ instead of A*"
        raise UserError("PATTERN can match an empty sequence of rows", hint=hint)
    program_of(pattern)  # raises if it is too long
    return pattern


def variables(pattern: Pattern) -> list[str]:
    """The variables of a pattern, each once."""
    if isinstance(pattern, Variable):
        return [pattern.name]
    if isinstance(pattern, Anchor):
        return []
    parts = (pattern.part,) if isinstance(pattern, Repeat) else pattern.parts
    return list(dict.fromkeys(name for part in parts for name in variables(part)))


def can_be_empty(pattern: Pattern) -> bool:
    """Whether a pattern can match an empty sequence of rows."""
    match pattern:
        case Variable():
            return False
        case Anchor():
            return True
        case Sequence(parts):
            return all(can_be_empty(part) for part in parts)
        case Choice(parts):
            return any(can_be_empty(part) for part in parts)
        case Repeat(part, least):
            return least == 0 or can_be_empty(part)


def to_text(pattern: Pattern) -> str:
    """The pattern in its notation.

    >>> to_text(parse_pattern("^ A (B|C D){0,3}? E+ $"))
    '^ A (B | C D){0,3}? E+ $'
    """
    match pattern:
        case Variable(name):
            return name
        case Anchor(end):
            return "$" if end else "^"
        case Sequence(parts):
            return " ".join(f"({to_text(part)})" if isinstance(part, Choice) else to_text(part) for part in parts)
        case Choice(parts):
            return " | ".join(map(to_text, parts))
        case Repeat(part, least, most, reluctant):
            inner = to_text(part)
            inner = inner if isinstance(part, Variable) else f"({inner})"
            return inner + _quantifier(least, most) + ("?" if reluctant else "")


def program_of(pattern: Pattern) -> tuple[Instruction, ...]:
    """The program that finds the preferred match of a pattern. Raises UserError if it is too long.

    >>> [(step.kind, step.variable, step.first, step.second) for step in program_of(parse_pattern("A+"))]
    [('row', 'A', 0, 0), ('split', '', 0, 2), ('match', '', 0, 0)]
    """
    steps: list[Instruction] = []
    _compile(pattern, steps)
    return (*steps, Instruction("match"))


def _quantifier(least: int, most: int | None) -> str:
    known = {(0, None): "*", (1, None): "+", (0, 1): "?"}
    return known.get((least, most)) or (
        f"{{{least}}}" if least == most else f"{{{least},{'' if most is None else most}}}"
    )


def _compile(pattern: Pattern, steps: list[Instruction]) -> None:
    if len(steps) > MAX_INSTRUCTIONS:
        raise UserError(f"PATTERN is too long: more than {MAX_INSTRUCTIONS:,} steps after its repetitions are expanded")
    match pattern:
        case Variable(name):
            steps.append(Instruction("row", name))
        case Anchor(end):
            steps.append(Instruction("end" if end else "start"))
        case Sequence(parts):
            for part in parts:
                _compile(part, steps)
        case Choice(parts):
            _choice(parts, steps)
        case Repeat():
            _repeat(pattern, steps)


def _choice(parts: tuple[Pattern, ...], steps: list[Instruction]) -> None:
    """Writes a split before each part except the last, and a jump past the last part after each other part."""
    leaving: list[int] = []
    for part in parts[:-1]:
        at = len(steps)
        steps.append(Instruction("split"))
        _compile(part, steps)
        leaving.append(len(steps))
        steps.append(Instruction("jump"))
        steps[at] = Instruction("split", first=at + 1, second=len(steps))
    _compile(parts[-1], steps)
    for at in leaving:
        steps[at] = Instruction("jump", first=len(steps))


def _repeat(repeat: Repeat, steps: list[Instruction]) -> None:
    start = len(steps)
    for _ in range(repeat.least):
        start = len(steps)
        _compile(repeat.part, steps)
    if repeat.most is None and repeat.least:
        steps.append(_split(start, len(steps) + 1, repeat))
    elif repeat.most is None:
        at = len(steps)
        steps.append(Instruction("split"))
        _compile(repeat.part, steps)
        steps.append(Instruction("jump", first=at))
        steps[at] = _split(at + 1, len(steps), repeat)
    else:
        splits: list[int] = []
        for _ in range(repeat.most - repeat.least):
            splits.append(len(steps))
            steps.append(Instruction("split"))
            _compile(repeat.part, steps)
        for at in splits:
            steps[at] = _split(at + 1, len(steps), repeat)


def _split(again: int, past: int, repeat: Repeat) -> Instruction:
    first, second = (past, again) if repeat.reluctant else (again, past)
    return Instruction("split", first=first, second=second)


class _Parser:
    """Reads a pattern from its tokens."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens, self._at = tokens, 0
        self._permuting = False

    @property
    def ahead(self) -> str:
        """The next token, "" at the end."""
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def choice(self) -> Pattern:
        """Reads alternatives, separated by `|`."""
        parts = [self._sequence()]
        while self._taken("|"):
            parts.append(self._sequence())
        return parts[0] if len(parts) == 1 else Choice(tuple(parts))

    def _sequence(self) -> Pattern:
        parts: list[Pattern] = []
        while self.ahead not in ("", "|", ")", ","):
            parts.append(self._repeated())
        if not parts:
            raise UserError("PATTERN has an empty alternative or group")
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _repeated(self) -> Pattern:
        part = self._primary()
        if (bounds := self._bounds()) is not None:
            if can_be_empty(part):
                message = "PATTERN repeats a part that can match an empty sequence of rows"
                raise UserError(message, hint="write (A)* instead of (A?)*")
            part = Repeat(part, *bounds, reluctant=self._taken("?"))
        return part

    def _primary(self) -> Pattern:
        token = self._next()
        if token == "(":
            inner = self.choice()
            self._expect(")")
            return inner
        if token in "^$":
            return Anchor(token == "$")
        if token.upper() == "PERMUTE" and self.ahead == "(":
            return self._permuted()
        if token[0].isalpha() or token[0] in '_"':
            return Variable(variable_name(token))
        hint = "it may contain variables, ( ), |, *, +, ?, {n,m}, ^, $, PERMUTE(A, B)"
        raise UserError(f'unexpected "{token}" in PATTERN' if token else "PATTERN ends too early", hint=hint)

    def _permuted(self) -> Pattern:
        if self._permuting:
            raise UserError("PERMUTE inside PERMUTE is not supported")
        self._permuting = True
        self._expect("(")
        parts = [self.choice()]
        while self._taken(","):
            parts.append(self.choice())
        self._expect(")")
        self._permuting = False
        if len(parts) > MAX_PERMUTED:
            raise UserError(f"PERMUTE has {len(parts)} parts, but at most {MAX_PERMUTED} are allowed")
        return Choice(tuple(Sequence(order) for order in permutations(parts)))

    def _bounds(self) -> tuple[int, int | None] | None:
        for mark, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._taken(mark):
                return bounds
        if not self._taken("{"):
            return None
        least = self._number() if self.ahead.isdecimal() else 0
        most: int | None = least
        if self._taken(","):
            most = self._number() if self.ahead.isdecimal() else None
        self._expect("}")
        if most is not None and not max(least, 1) <= most:
            raise UserError(
                "a repetition in PATTERN has an upper bound of 0 or below its lower bound", hint="for example {2,5}"
            )
        return least, most

    def _number(self) -> int:
        number = int(self._next()[:10])
        if number > MAX_INSTRUCTIONS:
            raise UserError(f"a bound of a repetition in PATTERN exceeds {MAX_INSTRUCTIONS:,}")
        return number

    def _taken(self, token: str) -> bool:
        taken = self.ahead == token
        self._at += taken
        return taken

    def _expect(self, token: str) -> None:
        if not self._taken(token):
            raise UserError(f'expected "{token}" in PATTERN' + (f', not "{self.ahead}"' if self.ahead else ""))

    def _next(self) -> str:
        token = self.ahead
        self._at += 1
        return token


def variable_name(text: str) -> str:
    """The name of a variable as it is compared: in upper case, or unchanged if it is quoted.

    >>> variable_name("up"), variable_name('"up"')
    ('UP', 'up')
    """
    return text[1:-1].replace('""', '"') if text.startswith('"') else text.upper()
