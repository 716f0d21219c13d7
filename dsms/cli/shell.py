"""The interactive SQL shell: history, completion, and statements of several lines that end with a semicolon."""

from collections.abc import Callable, Iterable
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.completion import ThreadedCompleter
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory
from prompt_toolkit.input import Input
from prompt_toolkit.lexers import PygmentsLexer
from prompt_toolkit.output import Output
from pygments.lexers.sql import SqlLexer  # type: ignore[import-untyped]

from dsms.cli.completion import SqlCompleter
from dsms.cli.output import note
from dsms.cli.statement_text import complete

HELP = """a statement ends with a semicolon and may span several lines
\\d         list sources and streams   \\d NAME   describe an object
\\?         show this help             \\q        quit (also Ctrl-D)
Ctrl-C     discard the text typed so far, or stop waiting for an answer"""
_COMMANDS = {"\\d": "SHOW SOURCES; SHOW STREAMS;"}


class Shell:
    """Reads statements and passes each to `answer`."""

    def __init__(
        self,
        history: Path,
        names: Callable[[], Iterable[str]],
        answer: Callable[[str], None],
        terminal: tuple[Input, Output] | None = None,
    ) -> None:
        self._answer = answer
        self._prompt: PromptSession[str] = PromptSession(
            history=FileHistory(str(history)),
            completer=ThreadedCompleter(SqlCompleter(names)),
            complete_while_typing=False,
            lexer=PygmentsLexer(SqlLexer),
            multiline=Condition(lambda: not complete(get_app().current_buffer.text)),
            prompt_continuation="  ...> ",
            input=terminal[0] if terminal else None,
            output=terminal[1] if terminal else None,
        )

    def run(self) -> None:
        """Reads until `\\q` or Ctrl-D."""
        note("type \\? for help, \\q to quit")
        while True:
            try:
                text = self._prompt.prompt("dsms> ").strip()
            except KeyboardInterrupt:
                continue
            except EOFError:
                return
            if text in ("\\q", "quit;", "exit;"):
                return
            if text:
                self._obey_unless_interrupted(text)

    def _obey_unless_interrupted(self, text: str) -> None:
        """Carries out a line. Ctrl-C ends the wait for its answer, and the coordinator ends a SELECT that nobody waits
        for."""
        try:
            self._obey(text)
        except KeyboardInterrupt:
            note("no longer waiting: a SELECT ends, another statement may still take effect")

    def _obey(self, text: str) -> None:
        if text in _COMMANDS:
            self._answer(_COMMANDS[text])
        elif text.startswith("\\d "):
            self._answer(f"DESCRIBE {text[3:].strip().rstrip(';')};")
        elif text.startswith("\\"):
            note(HELP)
        else:
            self._answer(text)
