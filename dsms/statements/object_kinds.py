"""The words that statements use for kinds of objects."""

from __future__ import annotations

from collections.abc import Iterable

from dsms.model import statements as st
from dsms.model.objects import Object, Query, kind_of
from dsms.sql.parser.cursor import Cursor

KINDS: dict[str, st.Kind] = {
    "SOURCE": "source",
    "STREAM": "stream",
    "TABLE": "table",
    "VIEW": "view",
    "SUMMARY": "view",
    "QUERY": "query",
    "AGGREGATE": "aggregate",
}
#: Words that may precede VIEW.
_VIEWS = ("MATERIALIZED", "STREAMED", "COMPLETE")


def kind_word(cursor: Cursor, words: Iterable[str]) -> str:
    """Consumes one of the words for a kind of object; before VIEW there may be a word for its kind of view."""
    is_view = any(cursor.accept(word, "VIEW") for word in _VIEWS)
    return "VIEW" if is_view else cursor.one_of(tuple(words), "kind")


def check_kind(name: st.Name, kind: st.Kind, item: Object) -> None:
    """Raises SqlError if a statement names an object by the word for another kind. A view created by
    CREATE STREAM … AS is also a stream."""
    derived = isinstance(item, Query) and (item.stream or item.sql.upper().split()[:2] == ["CREATE", "STREAM"])
    if kind != kind_of(item) and not (derived and kind == "stream"):
        raise name.place.error(f'"{item.name}" is a {kind_of(item)}, not a {kind}')
