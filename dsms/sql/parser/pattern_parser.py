"""The parser of MATCH_RECOGNIZE, which follows an item of FROM."""

from __future__ import annotations

from typing import Any, cast

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from dsms.sql.parser import nodes
from dsms.sql.parser.window_parser import WindowParser

_WORD = "MATCH_RECOGNIZE"


class PatternParser(WindowParser):
    """Items of FROM with a row pattern.

    >>> import sqlglot
    >>> from dsms.sql.parser.dialect import Dsms
    >>> pattern = "ORDER BY t MEASURES LAST(B.v) AS x PATTERN (A B+) DEFINE B AS v > 1"
    >>> item = sqlglot.parse_one(f"SELECT x FROM S MATCH_RECOGNIZE ({pattern}) AS m", read=Dsms).this.args["from_"].this
    >>> item.alias, item.args["pattern"], item.this.name
    ('m', 'A B+', 'S')
    """

    def _at_pattern(self) -> bool:
        return self._ahead(0) == _WORD and self._ahead(1) == "("

    def _with_windows(self, item: exp.Expr) -> exp.Expr:
        item = super()._with_windows(item)
        while self._at_pattern():
            token = self._curr
            pattern = self._parenthesised(1, lambda inner=item: self._row_pattern(inner))
            item = self.expression(pattern, token=token)
            if alias := self._parse_table_alias():
                item.set("alias", alias)
        return item

    def _row_pattern(self, item: exp.Expr) -> exp.Expr:
        partition = self._parse_csv(self._parse_column) if self._match_partition() else []
        order = self._parse_order()
        measures = self._parse_csv(self._measure) if self._match_text_seq("MEASURES") else []
        every = self._rows_per_match()
        skip = self._skip() if self._match_text_seq("AFTER", "MATCH", "SKIP") else None
        if not self._match_text_seq("PATTERN"):
            self.raise_error("expected PATTERN")
        text = self._pattern_text()
        within = self._parse_disjunction() if self._match_text_seq("WITHIN") else None
        define = self._parse_csv(self._definition) if self._match_text_seq("DEFINE") else []
        return nodes.RowPattern(
            this=item, partition=partition, order=order, measures=measures, every=every, skip=skip, pattern=text,
            within=within, expressions=define,
        )  # fmt: skip

    def _measure(self) -> exp.Expr:
        """`[FINAL | RUNNING] expression AS name`."""
        # FINAL and RUNNING may also be columns: `final AS x`, `running + 1 AS y`
        follows = self._ahead(1)
        word = self._ahead(0) in ("FINAL", "RUNNING") and self._curr.token_type != TokenType.IDENTIFIER
        final = self._ahead(0) if word and (follows[:1].isalpha() or follows[:1] == "_") and follows != "AS" else ""
        if final:
            self._advance()
        measure = self._parse_expression()
        if not isinstance(measure, exp.Alias):
            self.raise_error("expected a measure with a name: expression AS name")
        measure = cast(exp.Alias, measure)
        measure.meta["final"] = final
        return measure

    def _rows_per_match(self) -> bool:
        if self._match_text_seq("ALL", "ROWS", "PER", "MATCH"):
            return True
        self._match_text_seq("ONE", "ROW", "PER", "MATCH")
        return False

    def _skip(self) -> list[Any]:
        """Parses the rest of AFTER MATCH SKIP into `["past"]`, `["next"]`, or "first" or "last" with a variable."""
        if self._match_text_seq("PAST", "LAST", "ROW"):
            return ["past"]
        if self._match_text_seq("TO", "NEXT", "ROW"):
            return ["next"]
        if not self._match_text_seq("TO"):
            self.raise_error(
                "expected AFTER MATCH SKIP PAST LAST ROW, TO NEXT ROW, TO FIRST variable or TO LAST variable"
            )
        side = "last"
        if self._ahead(0) in ("FIRST", "LAST") and not (self._ahead(1) == "PATTERN" and self._ahead(2) == "("):
            side = self._ahead(0).lower()
            self._advance()
        return [side, self._variable()]

    def _definition(self) -> exp.Expr:
        """`variable AS condition`."""
        token, alias = self._curr, self._variable()
        if not self._match(TokenType.ALIAS):
            self.raise_error("expected a definition: variable AS condition")
        condition = self._parse_disjunction()
        return self.expression(exp.Alias(this=condition, alias=alias), token=token)

    def _variable(self) -> exp.Expr:
        token, quoted = self._curr, self._curr.token_type == TokenType.IDENTIFIER
        word = (token.text[:1].isalpha() or token.text.startswith("_")) and token.token_type != TokenType.STRING
        if not quoted and not word:
            self.raise_error("expected a variable of the pattern")
        self._advance()
        return self.expression(exp.Identifier(this=token.text, quoted=quoted), token=token)

    def _pattern_text(self) -> str:
        """The text between the parentheses of PATTERN."""
        self._match_l_paren()
        start, depth = self._curr, 1
        last = start
        while depth and self._index < len(self._tokens):
            depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(self._curr.token_type, 0)
            if depth:
                last = self._curr
                self._advance()
        self._match_r_paren()
        return str(self._find_sql(start, last))


def pattern_sql(generator: Any, node: exp.Expr) -> str:
    """The SQL text of a row pattern."""
    skip = node.args.get("skip")
    words = {"past": "PAST LAST ROW", "next": "TO NEXT ROW"}
    after = f"AFTER MATCH SKIP {words.get(skip[0]) or f'TO {skip[0].upper()} {generator.sql(skip[1])}'}" if skip else ""
    inside = [
        _listed(generator, "PARTITION BY", node.args.get("partition")),
        generator.sql(node, "order").strip(),
        _listed(generator, "MEASURES", node.args.get("measures")),
        "ALL ROWS PER MATCH" if node.args.get("every") else "",
        after,
        f"PATTERN ({node.args['pattern']})",
        f"WITHIN {generator.sql(node, 'within')}" if node.args.get("within") else "",
    ]
    define = ", ".join(
        f"{generator.sql(each.args['alias'])} AS {generator.sql(each.this)}" for each in node.expressions
    )
    body = " ".join(part for part in (*inside, f"DEFINE {define}" if define else "") if part)
    alias = f" AS {generator.sql(node, 'alias')}" if node.args.get("alias") else ""
    joins = str(generator.expressions(node, key="joins", sep="", skip_first=True))
    return f"{generator.sql(node, 'this')} {_WORD} ({body}){alias}{joins}"


def _listed(generator: Any, words: str, parts: Any) -> str:
    return f"{words} {', '.join(generator.sql(part) for part in parts)}" if parts else ""
