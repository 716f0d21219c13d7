"""The errors of the whole system, as one tree.

DsmsError
├── UserError          the request is wrong; repeating it does not help
│   ├── SqlError       …at a line and column of a statement
│   └── ConfigError    …in a setting, an option or the environment
├── ExternalError      another system failed; `retryable` says whether repeating may help
│   └── Fenced         a newer owner has taken over: stop
└── InternalError      an invariant of this code is broken
"""


class DsmsError(Exception):
    """The root: a lower-case message that says what is wrong and where, and a hint that says what to do about it.

    >>> str(UserError("stream \\"x\\" not found", hint="have: a, b"))
    'stream "x" not found; have: a, b'
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(f"{message}; {hint}" if hint else message)
        self.message = message
        self.hint = hint

    def add_hint(self, hint: str) -> None:
        """Adds what a caller knows about what to do.

        >>> error = UserError("table \\"x\\" not found")
        >>> error.add_hint("have: a, b")
        >>> str(error), error.hint
        ('table "x" not found; have: a, b', 'have: a, b')
        """
        self.args = (f"{self}; {hint}",)
        self.hint = f"{self.hint}; {hint}" if self.hint else hint


class UserError(DsmsError):
    """The request is wrong: nothing was done, and repeating it does not help."""


class SqlError(UserError):
    """A statement is wrong at a line and a column, both counted from 1.

    >>> str(SqlError("column \\"x\\" not found", line=2, column=8, hint="have: a, b"))
    'line 2, column 8: column "x" not found; have: a, b'
    """

    def __init__(self, message: str, *, line: int = 1, column: int = 1, hint: str = "") -> None:
        super().__init__(f"line {line}, column {column}: {message}", hint=hint)
        self.line = line
        self.column = column


class ConfigError(UserError):
    """A setting, an option or the environment is wrong."""


class ExternalError(DsmsError):
    """Another system failed. `retryable` says whether the same call may succeed later."""

    def __init__(self, message: str, *, hint: str = "", retryable: bool = True) -> None:
        super().__init__(message, hint=hint)
        self.retryable = retryable


class Fenced(ExternalError):
    """A newer owner of the same fragment has taken over: this one must stop."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retryable=False)


class InternalError(DsmsError):
    """An invariant of this code is broken: a defect to report, never a user's mistake."""
