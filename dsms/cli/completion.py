"""Completion in the SQL shell: the keywords of the language and the names that the coordinator knows."""

from collections.abc import Callable, Iterable

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

KEYWORDS = (
    "ACTIVATE",
    "AGGREGATE",
    "ALTER",
    "ANALYZE",
    "AND",
    "AS",
    "AVG",
    "BETWEEN",
    "BY",
    "CASE",
    "COMPLETE",
    "COUNT",
    "CREATE",
    "DEACTIVATE",
    "DELETE",
    "DESCRIBE",
    "DISTINCT",
    "DROP",
    "DSTREAM",
    "ELSE",
    "END",
    "EXCEPT",
    "EXPLAIN",
    "FADE",
    "FALSE",
    "FORMAT",
    "FROM",
    "FULL",
    "GROUP",
    "HAVING",
    "IN",
    "INNER",
    "INSERT",
    "INTERSECT",
    "INTO",
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
    "PAUSE",
    "PREFERENCE",
    "PRIMARY",
    "QUERY",
    "RANGE",
    "REGISTER",
    "REPLACE",
    "RESUME",
    "RIGHT",
    "ROWS",
    "RSTREAM",
    "SELECT",
    "SET",
    "SHOW",
    "SLIDE",
    "SOURCE",
    "SOURCES",
    "STREAM",
    "STREAMED",
    "STREAMS",
    "SUM",
    "SUMMARY",
    "TABLE",
    "THEN",
    "TOPIC",
    "TRUE",
    "UNBOUNDED",
    "UNION",
    "UPDATE",
    "VALUES",
    "VIEW",
    "WEIGHT",
    "WHEN",
    "WHERE",
    "WINDOW",
    "WITH",
)


class SqlCompleter(Completer):
    """Offers keywords in the case of the typed prefix, and names as they are spelled; `names` returns none when the
    coordinator cannot be asked."""

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
        for keyword in KEYWORDS:
            if keyword.startswith(word.upper()):
                yield Completion(keyword.lower() if word.islower() else keyword, -len(word))
