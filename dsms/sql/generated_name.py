"""The name of a query that has none."""

from __future__ import annotations

import hashlib

from sqlglot import exp

from dsms.sql.parser.dialect import Dsms


def generated_name(select: exp.Expr) -> str:
    """A name derived from the query, so that the same query is registered only once.

    >>> import sqlglot
    >>> generated_name(sqlglot.parse_one("select A from s")) == generated_name(sqlglot.parse_one("SELECT a FROM S"))
    True
    """
    return "query_" + hashlib.sha256(select.sql(dialect=Dsms).lower().encode()).hexdigest()[:8]
