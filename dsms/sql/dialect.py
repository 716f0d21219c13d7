"""The SQL dialect that queries are parsed in: PostgreSQL's expressions, and our own statements as plain tokens."""

from __future__ import annotations

from sqlglot.dialects.postgres import Postgres


class Dsms(Postgres):
    """PostgreSQL without statements that swallow the rest of their line unparsed."""

    class Tokenizer(Postgres.Tokenizer):
        """`SHOW`, `EXPLAIN` and `REGISTER` are tokenised like any other statement."""

        COMMANDS = set()
