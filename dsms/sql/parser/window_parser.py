"""The parser of windows in FROM: CQL's brackets, PIPES' WINDOW, and windows as table functions."""

from __future__ import annotations

from typing import Any, cast

from sqlglot import exp
from sqlglot.parsers.postgres import PostgresParser
from sqlglot.tokenizer_core import Token, TokenType

from dsms.sql.parser import nodes
from dsms.sql.parser.cursor import place_of

#: The words after a span that are not its unit.
_AFTER_A_SPAN = ("SLIDE", "PRECEDING", "WHERE", "RANGE", "ROWS", "MAX")
_ARGUMENT_NAMES = ("SIZE", "SLIDE", "STEP", "GAP", "OFFSET")
_LENGTHS = {"tumble": ("SIZE",), "hop": ("SLIDE", "SIZE"), "cumulate": ("SLIDE", "SIZE"), "session": ("GAP",)}
WINDOW_TABLES = tuple(name.upper() for name in _LENGTHS)


class WindowParser(PostgresParser):
    """PostgreSQL's parser, extended by windows after an item of FROM."""

    #: The SLIDE or ACTIVE EXPIRATION of the OVER that is being parsed, as arguments of its node.
    _slide: dict[str, Any] = {}

    def _ahead(self, steps: int) -> str:
        """The upper-case text of the token some steps ahead; 0 is the current one, "" is past the end."""
        at = self._index + steps
        return str(self._tokens[at].text.upper()) if at < len(self._tokens) else ""

    def _parenthesised(self, skip: int, parse: Any) -> exp.Expr:
        """Skips some tokens, then parses the content of parentheses by `parse`."""
        self._advance(skip)
        self._match_l_paren()
        parsed = parse()
        self._match_r_paren()
        return cast(exp.Expr, parsed)

    def _attach_alias(self, item: exp.Expr) -> None:
        """Parses an alias and attaches it to the innermost item."""
        if not _innermost(item).args.get("alias") and (alias := self._parse_table_alias()):
            _innermost(item).set("alias", alias)

    def _with_windows(self, item: exp.Expr) -> exp.Expr:
        """Parses what may follow an item of FROM: a Sample, then windows, each of which wraps the item so far."""
        item = _unwrapped(item)
        if self._ahead(0) == "SAMPLE" and self._ahead(1) == "(":
            token = self._curr
            percent = self._parenthesised(1, self._parse_number)
            item = self.expression(nodes.StreamSample(this=item, percent=percent), token=token)
        opened = self._curr
        if opened.token_type == TokenType.L_BRACKET:
            self._advance()
            item = self._window(item, "cql", TokenType.R_BRACKET, "]", opened)
        elif opened.token_type == TokenType.WINDOW and self._ahead(1) == "(":
            self._advance(2)
            item = self._window(item, "pipes", TokenType.R_PAREN, ")", opened)
            item.set("granularity", self._granularity())
        else:
            return item
        self._attach_alias(item)
        return self._with_windows(item)

    def _window(self, item: exp.Expr, notation: str, closing: TokenType, text: str, opened: Token) -> exp.Expr:
        partition = self._parse_csv(self._parse_column) if self._match_partition() else None
        parts = self._now_window() if partition is None and self._match_text_seq("NOW") else self._frame()
        if not self._match(closing):
            self.raise_error(f"expected {text}")
        window = nodes.StreamWindow(this=item, notation=notation, partition=partition, **parts)
        return self.expression(window, token=opened)

    def _granularity(self) -> exp.Expr | None:
        """PIPES' `GRANULARITY(5 SECONDS)`, after a window."""
        if self._ahead(0) != "GRANULARITY" or self._ahead(1) != "(":
            return None
        self._advance()
        if self._ahead(1) in ("COARSEST", "FINEST"):
            hint = "write one: GRANULARITY(5 SECONDS)"
            raise place_of(self._curr).error("a granularity between two bounds is not supported", hint)
        return self._parenthesised(0, self._span)

    def _match_partition(self) -> bool:
        return self._match(TokenType.PARTITION_BY) or self._match_text_seq("PARTITION", "BY")

    def _now_window(self) -> dict[str, Any]:
        where = self._parse_disjunction() if self._match(TokenType.WHERE) else None
        return {"kind": "now", "where": where}

    def _frame(self) -> dict[str, Any]:
        if not self._match_texts(("RANGE", "ROWS")):
            self.raise_error("expected a window: RANGE, ROWS, NOW or PARTITION BY")
        kind = self._prev.text.lower()
        parts: dict[str, Any] = {"kind": kind, **self._sizes()}
        if kind == "rows" and self._match_text_seq("RANGE"):
            parts["within"] = self._extent()
        if self._match_text_seq("SLIDE"):
            parts["slide"] = self._span()
        if self._match(TokenType.WHERE):
            parts["where"] = self._parse_disjunction()
        return parts

    def _sizes(self) -> dict[str, Any]:
        """One size, or the least and the greatest of a range: `MIN 5 MINUTES, MAX 1 HOUR`."""
        if not self._match_text_seq("MIN"):
            return {"size": self._extent()}
        least = self._span()
        self._match(TokenType.COMMA)
        if not self._match_text_seq("MAX"):
            self.raise_error("expected MAX")
        return {"least": least, "size": self._span()}

    def _extent(self) -> exp.Expr | None:
        size = None if self._match_text_seq("UNBOUNDED") else self._span()
        self._match_text_seq("PRECEDING")
        return size

    def _span(self) -> exp.Expr:
        """`5`, `5 MINUTES`, `INTERVAL '5' MINUTE`."""
        token = self._curr
        if interval := self._parse_interval():
            return interval
        number = self._parse_number()
        if number is None:
            self.raise_error("expected a number")
        word = self._ahead(0)
        unit = None if word in _AFTER_A_SPAN else self._parse_var(any_token=False)
        return self.expression(nodes.Span(this=number, unit=unit), token=token)

    # --- windows of OVER

    def _parse_window_spec(self) -> Any:
        """Also parses `5 SECONDS PRECEDING`, and at the end ESL's `SLIDE 10` or `ACTIVE EXPIRATION`."""
        self._match(TokenType.BETWEEN)
        if self._curr.token_type == TokenType.NUMBER and self._ahead(2) in ("PRECEDING", "FOLLOWING"):
            value: Any = self._span()
            side = self._prev.text if self._match_texts(self.WINDOW_SIDES) else None
            spec = {"value": value, "side": side}
        else:
            spec = super()._parse_window_spec()
        self._slide = self._slide_clause() or self._slide
        return spec

    def _slide_clause(self) -> dict[str, Any]:
        if self._ahead(0) == "SLIDE" and self._ahead(1) != ")":
            self._advance()
            return {"slide": self._span()}
        if self._ahead(0) == "ACTIVE" and self._ahead(1) == "EXPIRATION":
            self._advance(2)
            return {"active": True}
        return {}

    def _parse_window(self, this: Any, alias: bool = False) -> Any:
        outside, self._slide = self._slide, {}
        window = super()._parse_window(this, alias)
        spec = window.args.get("spec") if isinstance(window, exp.Window) else None
        if spec is not None:
            for key, value in self._slide.items():
                spec.set(key, value)
        self._slide = outside
        return window

    def _parse_interval_span(self, this: Any, parse_function_unit: bool = True) -> Any:
        """Also parses a text with a time of day and no unit after it, `'1 day 02:03:04'`: sqlglot would drop the
        time."""
        if this is not None and this.is_string and ":" in this.name:
            return self.expression(exp.Interval(this=this))
        return super()._parse_interval_span(this, parse_function_unit)

    def _parse_alias(self, this: Any, explicit: bool = False) -> Any:
        """Also parses a name before OVER, as in example 15 of ESL: `sum(price) AS s OVER (…)`."""
        named = super()._parse_alias(this, explicit)
        if isinstance(named, exp.Alias) and self._ahead(0) == "OVER" and self._ahead(1) == "(":
            named.set("this", self._parse_window(named.this))
        return named

    # --- windows as table functions

    def _window_table(self) -> exp.Expr:
        token = self._curr
        function = token.text.lower()
        return self._parenthesised(1, lambda: self._window_arguments(function, token))

    def _window_arguments(self, function: str, token: Token) -> exp.Expr:
        item = self._argument(self._input, "DATA")
        partition = self._partition_of_input()
        self._comma()
        column = self._argument(self._descriptor, "TIMECOL")
        spans: dict[str, exp.Expr] = {}
        names = _LENGTHS[function]
        while self._match(TokenType.COMMA):
            place = len(spans)
            name = self._argument_name() or (*names, "OFFSET")[min(place, len(names))]
            name = "SLIDE" if name == "STEP" else name
            if name in spans:
                raise place_of(self._curr).error(f'"{name}" of {function.upper()} is given twice')
            spans[name] = self._span()
        ordered = [spans[name] for name in (*names, "OFFSET") if name in spans]
        if len(ordered) < len(names) or len(ordered) != len(spans):
            self.raise_error(f"expected {len(names)} length(s) and an optional offset in", token)
        table = nodes.WindowTable(this=item, function=function, column=column, expressions=ordered, partition=partition)
        return self.expression(table, token=token)

    def _table_function(self) -> exp.Expr:
        token = self._curr
        return self._parenthesised(1, lambda: self._function_arguments(token))

    def _function_arguments(self, token: Token) -> exp.Expr:
        item, arguments = self._input(), []
        partition = self._partition_of_input()
        while self._match(TokenType.COMMA):
            arguments.append(self._descriptors() if self._ahead(0) == "DESCRIPTOR" else self._parse_disjunction())
        call = nodes.TableFunction(this=item, function=token.text.upper(), partition=partition, expressions=arguments)
        return self.expression(call, token=token)

    def _descriptors(self) -> exp.Expr:
        token = self._curr
        columns = self._parenthesised(1, lambda: exp.Tuple(expressions=self._parse_csv(self._parse_column)))
        return self.expression(nodes.Descriptor(expressions=columns.expressions), token=token)

    def _argument_name(self) -> str | None:
        word = self._ahead(0)
        if self._ahead(1) != "=>" or word not in _ARGUMENT_NAMES:
            return None
        self._advance(2)
        return word

    def _argument(self, parse: Any, name: str) -> exp.Expr:
        if self._ahead(0) == name and self._ahead(1) == "=>":
            self._advance(2)
        return cast(exp.Expr, parse())

    def _comma(self) -> None:
        if not self._match(TokenType.COMMA):
            self.raise_error("expected ,")

    def _input(self) -> exp.Expr | None:
        self._match(TokenType.TABLE)
        return self._parse_table()

    def _partition_of_input(self) -> list[exp.Expr] | None:
        if not self._match_partition():
            return None
        if self._ahead(0) == "(":
            return self._parse_wrapped_csv(self._parse_column)
        # the comma ends the argument: several columns need parentheses
        column = self._parse_column()
        return [column] if column is not None else []

    def _descriptor(self) -> exp.Expr | None:
        """`DESCRIPTOR(column)` or, as RisingWave writes it, `column`."""
        if self._ahead(0) != "DESCRIPTOR" or self._ahead(1) != "(":
            column = self._parse_column()
            if not isinstance(column, exp.Column):
                self.raise_error("expected DESCRIPTOR(column) or a column")
            return column
        self._advance()
        return self._parenthesised(0, self._parse_column)


def _innermost(item: exp.Expr) -> exp.Expr:
    while isinstance(item, nodes.FromWrapper):
        item = item.this
    return item


def _unwrapped(item: exp.Expr) -> exp.Expr:
    """Replaces `(Istream(Q))` by `Istream(Q)`; Q gets the alias of the parentheses."""
    if not isinstance(item, exp.Subquery) or not isinstance(item.this, nodes.StreamOf) or item.args.get("joins"):
        return item
    stream = item.this
    if alias := item.args.get("alias"):
        _innermost(stream).set("alias", alias)
    return stream
