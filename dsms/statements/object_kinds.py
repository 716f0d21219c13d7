"""The words that statements use for kinds of objects."""

from __future__ import annotations

from dsms.model import statements as st

KINDS: dict[str, st.Kind] = {
    "SOURCE": "source",
    "STREAM": "stream",
    "TABLE": "table",
    "VIEW": "view",
    "SUMMARY": "view",
    "QUERY": "query",
    "AGGREGATE": "aggregate",
}
