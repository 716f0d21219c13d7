"""Phrases that readers stumbled over stay out of the source and the documents, with what to write instead."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
#: Each phrase with its remedy. `is none` is English, `is None` Python.
PHRASES = {
    r"\b(he|him|his)\b": "name the subject: the caller, the user, the executor",
    r"\b[Ww]hoever\b": "name the subject: callers that …",
    r"(?<!there )\bis none\b": "is not one, does not exist, is invalid",
    r"\b[Ss]o many\b": "the number of …",
    r"\banew\b": "again, re-created, rebuilt",
    r"\bby now\b": "already",
    r"\bgoes on beside\b": "continues while …",
    r"\bwhat it is not\b": "say what it is",
    r"\btells (whether|that|how|what|which)\b": "says, shows, determines",
    r"\bas if it were\b": "like, as",
    r"\bthat is there\b": "that exists",
    r"\bskinned form": "canonical form",
}
#: Files in which a phrase is right, for example SyncSQL's own words next to the citation.
ALLOWED = {
    r"\banew\b": ("CHANGELOG.md",),  # the former name of an option
    r"\bskinned form": ("docs/glossary.md", "dsms/planner/optimizer/view_matching/canonical_form/form.py"),
}


def texts() -> Iterator[Path]:
    """Product modules and all documents."""
    for package in ("dsms", "connectors", "operators"):
        yield from (ROOT / package).rglob("*.py")
    yield from (ROOT / "docs").rglob("*.md")
    yield from (ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"))


def found(phrase: str) -> list[str]:
    """The lines with a phrase, as `path:line: text`."""
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in texts()
        if str(path.relative_to(ROOT)) not in ALLOWED.get(phrase, ())
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(phrase, line)
    ]


@pytest.mark.parametrize("phrase", PHRASES)
def test_a_phrase_that_readers_stumbled_over_is_not_used(phrase: str) -> None:
    lines = found(phrase)
    assert not lines, f"write instead: {PHRASES[phrase]}\n" + "\n".join(lines)
