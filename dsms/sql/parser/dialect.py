"""The SQL dialect of queries: PostgreSQL with notations for streams. The parsers of most other statements use only its
tokens."""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.generators.postgres import PostgresGenerator
from sqlglot.tokenizer_core import TokenType

from dsms.sql.parser import nodes
from dsms.sql.parser.pattern_parser import pattern_sql
from dsms.sql.parser.stream_parser import StreamParser


class Dsms(Postgres):
    """PostgreSQL with notations for streams, and without commands, whose text sqlglot would not parse."""

    class Tokenizer(Postgres.Tokenizer):
        """Tokenises `SHOW`, `EXPLAIN` and `REGISTER` like any other statement, and symbols of the papers as SQL
        words."""

        COMMANDS = set()
        # CURRENT_TIME must stay a plain word: it is a reserved column of ESL, which the function would hide
        KEYWORDS = {
            **{word: kind for word, kind in Postgres.Tokenizer.KEYWORDS.items() if word != "CURRENT_TIME"},
            "≤": TokenType.LTE,
            "≥": TokenType.GTE,
            "≠": TokenType.NEQ,
            "∪": TokenType.UNION,
            "∩": TokenType.INTERSECT,
            "−": TokenType.DASH,
            "GROUPBY": TokenType.GROUP_BY,
        }

    Parser = StreamParser

    class Generator(PostgresGenerator):
        """Writes the classes of `nodes.py` in the notations that the parser reads."""

        TRANSFORMS = {
            **PostgresGenerator.TRANSFORMS,
            exp.Select: lambda self, node: _words(self.select_sql(node), "EMIT FINAL" if node.args.get("emit") else ""),
            nodes.WholeQuery: lambda self, node: self.sql(node, "this"),
            nodes.Span: lambda self, node: _words(self.sql(node, "this"), self.sql(node, "unit")),
            nodes.StreamWindow: lambda self, node: _window(self, node),
            nodes.WindowTable: lambda self, node: _window_table(self, node),
            nodes.TableFunction: lambda self, node: _table_function(self, node),
            nodes.Descriptor: lambda self, node: f"DESCRIPTOR({self.expressions(node, flat=True)})",
            nodes.SyncRelation: lambda self, node: _synchronised(self, node),
            nodes.StreamOf: lambda self, node: f"{node.args['kind'].upper()}({self.sql(node, 'this')})",
            exp.WindowSpec: lambda self, node: _frame(self, node),
            exp.IgnoreNulls: lambda self, node: f"{self.sql(node, 'this')} IGNORE NULLS",
            exp.RespectNulls: lambda self, node: f"{self.sql(node, 'this')} RESPECT NULLS",
            nodes.RowPattern: pattern_sql,
            nodes.StreamSample: lambda self, node: f"{self.sql(node, 'this')} SAMPLE({self.sql(node, 'percent')})",
        }


def _words(*words: str) -> str:
    return " ".join(word for word in words if word)


def _window(generator: Any, node: exp.Expr) -> str:
    pipes, kind = node.args["notation"] == "pipes", node.args["kind"].upper()
    inside = _words(
        _clause(generator, node, "PARTITION BY", "partition"),
        ("RANGE 1" if pipes else kind) if kind == "NOW" else _words(kind, _sizes(generator, node)),
        _clause(generator, node, "RANGE", "within"),
        _clause(generator, node, "SLIDE", "slide"),
        _clause(generator, node, "WHERE", "where"),
    )
    window = f"WINDOW({inside})" if pipes else f"[{inside}]"
    granule = f" GRANULARITY({generator.sql(node, 'granularity')})" if node.args.get("granularity") else ""
    return f"{generator.sql(node, 'this')} {window}{granule}{_joins(generator, node)}"


def _sizes(generator: Any, node: exp.Expr) -> str:
    size = generator.sql(node, "size") or "UNBOUNDED"
    least = generator.sql(node, "least")
    if not least:
        return str(size)
    return f"MIN {least}, MAX {size}" if node.args["notation"] == "pipes" else f"MIN {least} MAX {size}"


def _frame(generator: Any, node: exp.Expr) -> str:
    slide = "ACTIVE EXPIRATION" if node.args.get("active") else _clause(generator, node, "SLIDE", "slide")
    if not slide:
        return str(generator.windowspec_sql(node))
    start = _words(generator.sql(node, "start"), generator.sql(node, "start_side"))
    return _words(generator.sql(node, "kind"), start, slide)


def _joins(generator: Any, node: exp.Expr) -> str:
    return str(generator.expressions(node, key="joins", sep="", skip_first=True))


def _clause(generator: Any, node: exp.Expr, word: str, key: str) -> str:
    value = node.args.get(key)
    text = ", ".join(generator.sql(item) for item in value) if isinstance(value, list) else generator.sql(node, key)
    return f"{word} {text}" if text else ""


def _without_alias(generator: Any, node: exp.Expr) -> tuple[str, str]:
    """The text of the inner item without its alias, and the alias as `AS …`, or ""."""
    inner = node.this.copy()
    alias = inner.args.get("alias")
    inner.set("alias", None)
    return generator.sql(inner), f"AS {generator.sql(alias)}" if alias else ""


def _synchronised(generator: Any, node: exp.Expr) -> str:
    inner, alias = _without_alias(generator, node)
    points = " UNION ".join(generator.sql(point) for point in node.expressions)
    return _words(f"R[{points}]({inner})", alias) + _joins(generator, node)


def _table_function(generator: Any, node: exp.Expr) -> str:
    inner, alias = _without_alias(generator, node)
    table = _words(f"TABLE {inner}", _clause(generator, node, "PARTITION BY", "partition"))
    arguments = ", ".join([table, *(generator.sql(argument) for argument in node.expressions)])
    return _words(f"{node.args['function']}({arguments})", alias) + _joins(generator, node)


def _window_table(generator: Any, node: exp.Expr) -> str:
    inner, alias = _without_alias(generator, node)
    columns = node.args.get("partition") or []
    partition = f"PARTITION BY ({', '.join(generator.sql(column) for column in columns)})" if columns else ""
    spans = ", ".join(generator.sql(span) for span in node.expressions)
    call = f"TABLE {_words(inner, partition)}, DESCRIPTOR({generator.sql(node, 'column')}), {spans}"
    return _words(f"{node.args['function'].upper()}({call})", alias) + _joins(generator, node)
