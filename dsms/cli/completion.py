"""Completion in the SQL shell: the keywords of the language and the names that the coordinator knows."""

from collections.abc import Callable, Iterable
from functools import cache

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

#: The words of queries; those of statements come from the kinds of statements.
_QUERY_WORDS = (
    "AGGREGATE",
    "AND",
    "AS",
    "AVG",
    "BETWEEN",
    "BY",
    "CASE",
    "COMPLETE",
    "COUNT",
    "DISTINCT",
    "DSTREAM",
    "ELSE",
    "END",
    "EXCEPT",
    "FADE",
    "FALSE",
    "FROM",
    "FULL",
    "GROUP",
    "HAVING",
    "IN",
    "INNER",
    "INTERSECT",
    "IS",
    "ISTREAM",
    "JOIN",
    "KEY",
    "LEFT",
    "LIKE",
    "LIMIT",
    "MAX",
    "MIN",
    "NOT",
    "NOW",
    "NULL",
    "ON",
    "OR",
    "ORDER",
    "OUTER",
    "OVER",
    "PARTITION",
    "PREFERENCE",
    "RANGE",
    "RIGHT",
    "ROWS",
    "RSTREAM",
    "SELECT",
    "SLIDE",
    "STREAMED",
    "SUM",
    "SUMMARY",
    "THEN",
    "TRUE",
    "UNBOUNDED",
    "UNION",
    "WHEN",
    "WHERE",
    "WINDOW",
    "WITH",
)


@cache
def keywords() -> tuple[str, ...]:
    """The words of queries and statements in alphabetical order.

    >>> keywords()[:4]
    ('ACTIVATE', 'ADD', 'AGGREGATE', 'AGGREGATES')
    """
    from dsms.statements.registry import STATEMENTS  # imported only when needed: it loads the planner

    starts = (word for kind in STATEMENTS for words in kind.starts for word in words)
    further = (word for kind in STATEMENTS for word in kind.words)
    return tuple(sorted({*_QUERY_WORDS, *starts, *further}))


class SqlCompleter(Completer):
    """Offers keywords in the case of the typed prefix, and names as they are spelled. `names` returns nothing if the
    coordinator does not answer."""

    def __init__(self, names: Callable[[], Iterable[str]]) -> None:
        self._names = names

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """The completions of the word before the cursor."""
        word = document.get_word_before_cursor()
        if not word:
            return
        for name in sorted(self._names()):
            if name.lower().startswith(word.lower()):
                yield Completion(name, -len(word), display_meta="name")
        for keyword in keywords():
            if keyword.startswith(word.upper()):
                yield Completion(keyword.lower() if word.islower() else keyword, -len(word))
