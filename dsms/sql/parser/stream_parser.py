"""The parser of queries: sqlglot's for PostgreSQL, with notations for streams in FROM and around select lists."""

from __future__ import annotations

import re
from typing import Any, ClassVar, cast

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from dsms.model.position import not_supported
from dsms.model.statements import TextLocation
from dsms.sql.parser import nodes
from dsms.sql.parser.cursor import place_of
from dsms.sql.parser.pattern_parser import PatternParser
from dsms.sql.parser.table_names import RELATION_OF
from dsms.sql.parser.window_parser import WINDOW_TABLES
from operators.table_functions.registry import TABLE_FUNCTIONS

_SYNCHRONISED = re.compile(r"[Rℜ]_(.+)", re.IGNORECASE)
_STREAM_WORDS = tuple(kind.upper() for kind in nodes.STREAM_KINDS)
_QUERY_STARTS = ("SELECT", "WITH", "(", *_STREAM_WORDS)
_SET_TOKENS: dict[TokenType, type[exp.SetOperation]] = {
    TokenType.UNION: exp.Union,
    TokenType.INTERSECT: exp.Intersect,
    TokenType.EXCEPT: exp.Except,
    TokenType.DASH: exp.Except,
}
#: The words after a set operator that show that it combines queries, not items of FROM.
_AFTER_SET_OF_QUERIES = (*_QUERY_STARTS, "ALL", "DISTINCT", "VALUES")
#: The most parser steps for a statement. One without nested constructors takes one or two steps for each of its words.
_MAX_STEPS = 100_000
#: The first tokens of the instant after AS OF.
_INSTANT_STARTS = (
    TokenType.TIMESTAMP,
    TokenType.TIMESTAMPTZ,
    TokenType.DATE,
    TokenType.NUMBER,
    TokenType.STRING,
    TokenType.DASH,
    TokenType.NULL,
    TokenType.CURRENT_TIMESTAMP,
    TokenType.VAR,
)
_OPERANDS = (TokenType.NUMBER, TokenType.VAR, TokenType.L_PAREN, TokenType.IDENTIFIER)


class StreamParser(PatternParser):
    """PostgreSQL's queries with CQL, PIPES and SyncSQL notations, and windows as table functions.

    >>> import sqlglot
    >>> from dsms.sql.parser.dialect import Dsms
    >>> tree = sqlglot.parse_one("SELECT a FROM S X [Range 5 Minutes]", read=Dsms).this
    >>> type(tree.args["from_"].this).__name__, tree.args["from_"].this.alias
    ('StreamWindow', 'X')
    """

    MODIFIABLES: ClassVar[Any] = (
        *PatternParser.MODIFIABLES,
        nodes.RowPattern,
        nodes.StreamWindow,
        nodes.SyncRelation,
        nodes.WindowTable,
        nodes.TableFunction,
    )

    #: `f(j->'a')` reads JSON: there are no lambda expressions.
    LAMBDAS: ClassVar[Any] = {
        token: parse for token, parse in PatternParser.LAMBDAS.items() if token != TokenType.ARROW
    }

    def parse(self, raw_tokens: list[Token], sql: str) -> list[exp.Expr | None]:
        """The trees of a text; queries with a FROM are wrapped in `WholeQuery`."""
        self._steps = 0
        self._operand = False  # whether the next item of FROM is an operand of a set operation
        return [_wrapped(tree) for tree in super().parse(raw_tokens, sql)]

    def _parse_version(self) -> exp.Version | None:
        """`FOR SYSTEM_TIME AS OF instant`, and also `AS OF instant`, in which OF is not an alias."""
        at = self._index
        if self._match_text_seq("AS", "OF"):
            if self._curr is not None and self._curr.token_type in _INSTANT_STARTS:
                return self.expression(exp.Version(this="TIMESTAMP", expression=self._parse_bitwise(), kind="AS OF"))
            self._retreat(at)
        return super()._parse_version()

    def _advance(self, times: int = 1) -> None:
        """Also raises SqlError after too many steps. sqlglot reads nested ARRAY[…], STRUCT(…) and types that are called
        like functions twice at each level, so a short text may take exponential time."""
        self._steps += 1
        if self._steps > _MAX_STEPS:
            place = TextLocation(self._curr.line, max(self._curr.col, 1))
            raise place.error("the statement is too complex", "nest ARRAY[…], STRUCT(…) and DATE(…) less deeply")
        super()._advance(times)

    def _parse_statement(self) -> exp.Expr | None:
        if self._ahead(0) in _STREAM_WORDS and self._ahead(1) == "(":
            return self._parse_select()
        return super()._parse_statement()

    # --- around queries and select lists

    def _parse_select_query(self, *args: Any, **options: Any) -> exp.Expr | None:
        if self._ahead(0) in _STREAM_WORDS and self._ahead(1) == "(" and self._ahead(2) in _QUERY_STARTS:
            return self._stream_query(**options)
        return super()._parse_select_query(*args, **options)

    def _stream_query(self, parse_set_operation: bool = True, **_: Any) -> exp.Expr | None:
        """`Istream (query)`."""
        token = self._curr
        self._advance(2)
        query = self._whole_query()
        self._match_r_paren()
        if query is None:
            self.raise_error("expected a query")
        marked = self.expression(nodes.StreamOf(kind=token.text.lower()), token=token)
        select = nodes.stream_of_query(cast(exp.Expr, query), token.text.lower(), marked.meta)
        return self._parse_set_operations(select) if parse_set_operation else select

    def _whole_query(self) -> exp.Expr | None:
        """A query in parentheses: also set operations whose first side is in parentheses of its own."""
        united = self._parse_set_operations(self._parse_select(nested=True))
        query: exp.Expr | None = self._parse_query_modifiers(united)
        return query

    def _parse_projections(self) -> tuple[list[exp.Expr], list[exp.Expr] | None]:
        if self._ahead(0) not in _STREAM_WORDS or self._ahead(1) != "(":
            return super()._parse_projections()
        token = self._curr
        self._advance(2)
        distinct = self._match(TokenType.DISTINCT)
        listed, exclude = super()._parse_projections()
        self._match_r_paren()
        stream = nodes.StreamOf(kind=token.text.lower(), expressions=listed, distinct=distinct)
        return [self.expression(stream, token=token)], exclude

    def _parse_query_modifiers(self, this: Any) -> Any:
        this = super()._parse_query_modifiers(this)
        if isinstance(this, exp.Select) and self._at_emit():
            self._advance(2)
            this.set("emit", self.expression(nodes.Emit(), token=self._prev))
        listed = this.expressions if isinstance(this, exp.Select) else []
        return _lifted(this, listed[0]) if listed and isinstance(listed[0], nodes.StreamOf) else this

    def _at_emit(self) -> bool:
        return self._ahead(0) == "EMIT" and self._ahead(1) == "FINAL"

    # --- items of FROM

    def _parse_table(self, *args: Any, **options: Any) -> exp.Expr | None:
        if options.get("schema") or options.get("is_db_reference"):
            return super()._parse_table(*args, **options)
        is_operand, self._operand = self._operand, False
        item = self._stream_item()
        if item is None:
            item = super()._parse_table(*args, **options)
        else:
            self._attach_alias(item)
        if item is None:
            return None
        if isinstance(item, exp.Table) and isinstance(item.this, exp.ExplodingGenerateSeries):
            if item.args.get("ordinality"):
                raise not_supported(item.this, "WITH ORDINALITY of generate_series", "compute it from the value")
            item = self.expression(exp.Lateral(this=item.this, alias=item.args.get("alias")))
        item = self._with_windows(item)
        item = item if is_operand else self._with_set_operations(item)
        for join in self._parse_joins() if options.get("joins") else ():
            item.append("joins", join)
        return item

    def _stream_item(self) -> exp.Expr | None:
        """Parses an item that sqlglot's parser would misread: a window or table function, a stream operator such as
        Istream, or a synchronised relation. Returns None for other items."""
        word, after = self._ahead(0), self._ahead(1)
        if word in WINDOW_TABLES and after == "(":
            return self._window_table()
        if word == "TABLE" and after == "(" and self._ahead(2) in WINDOW_TABLES:
            return self._parenthesised(1, self._window_table)
        if word in TABLE_FUNCTIONS and after == "(" and self._ahead(2) == "TABLE":
            return self._table_function()
        if word in _STREAM_WORDS and after == "(":
            return self._stream_of()
        if word in RELATION_OF and after == "[" and self._closes_with_call():
            return self._sync_relation()
        if after == "(" and (subscripted := _SYNCHRONISED.fullmatch(self._curr.text)):
            return self._subscripted(subscripted[1])
        return None

    def _stream_of(self) -> exp.Expr:
        token = self._curr
        kind = token.text.lower()
        if self._ahead(2) in _QUERY_STARTS:
            query = self._parenthesised(1, self._whole_query)
            item: exp.Expr = query if isinstance(query, exp.Subquery) else exp.Subquery(this=query)
        else:
            item = self._parenthesised(1, self._parse_table)
        return self.expression(nodes.StreamOf(this=item, kind=kind), token=token)

    def _closes_with_call(self) -> bool:
        """Whether the bracket ahead is followed by a parenthesis: `R[Sync](S)`, not `R [Range 5]`."""
        closing = 2
        while self._ahead(closing) not in ("]", ""):
            closing += 1
        return self._ahead(closing + 1) == "("

    def _sync_relation(self) -> exp.Expr:
        token = self._curr
        self._advance(2)
        points = [self._name()]
        while self._match(TokenType.UNION):
            points.append(self._name())
        if self._match(TokenType.COMMA):
            place = place_of(self._curr)
            raise place.error("a relation can have only one synchronisation stream", "unite them: R[A ∪ B](S)")
        if not self._match(TokenType.R_BRACKET):
            self.raise_error("expected ]")
        return self._synchronised(points, token)

    def _subscripted(self, name: str) -> exp.Expr:
        """`R_Sync2(S)`, SyncSQL's subscript."""
        token = self._curr
        self._advance()
        point = self.expression(exp.Identifier(this=name), token=token)
        return self._synchronised([self.expression(exp.Table(this=point))], token)

    def _synchronised(self, points: list[exp.Table], token: Token) -> exp.Expr:
        relation = self._parenthesised(0, self._name)
        return self.expression(nodes.SyncRelation(this=relation, expressions=points), token=token)

    def _name(self) -> exp.Table:
        """A name, with or without its schema, as an item of FROM."""
        token = self._curr
        name = self._parse_id_var(any_token=False)
        if name is None:
            self.raise_error("expected a name")
        parts = [name]
        while self._match(TokenType.DOT):
            parts.append(self._parse_id_var(any_token=False))
        named = dict(zip(("this", "db", "catalog"), reversed(parts), strict=False))
        return self.expression(exp.Table(**named), token=token)

    def _with_set_operations(self, item: exp.Expr, *, only_intersections: bool = False) -> exp.Expr:
        """Parses SyncSQL's set operations of relations in FROM: the bag union `ℜ(Sync2) ∪ ℜ(Sync5)`, the intersection
        ∩, which binds tighter, and the difference −. Both of these are of sets."""
        while kind := self._set_operator(only_intersections):
            self._advance()
            other = self._set_operand()
            if kind is not exp.Intersect:
                other = self._with_set_operations(other, only_intersections=True)
            sides = [nodes.plain_star(item), nodes.plain_star(other)]
            both = kind(this=sides[0], expression=sides[1], distinct=kind is not exp.Union)
            item = exp.Subquery(this=both)
            self._attach_alias(item)
        return item

    def _set_operator(self, only_intersections: bool) -> type[exp.SetOperation] | None:
        kind = _SET_TOKENS.get(self._curr.token_type)
        by_name = self._ahead(1) == "BY" and self._ahead(2) == "NAME"
        combines_queries = by_name or self._ahead(1) in _AFTER_SET_OF_QUERIES
        combines_queries = combines_queries and self._curr.token_type != TokenType.DASH
        if kind is None or combines_queries:
            return None
        return kind if kind is exp.Intersect or not only_intersections else None

    def _set_operand(self) -> exp.Expr:
        """An item of FROM without the set operators after it."""
        self._operand = True
        other = self._parse_table()
        if other is None:
            self.raise_error("expected a relation")
        return cast(exp.Expr, other)

    # --- spellings

    def _parse_function_call(self, *args: Any, **options: Any) -> exp.Expr | None:
        """Stores the function's name as written in the call: sqlglot has one class for `var_pop` and `variance_pop`."""
        written = self._curr.text.lower()
        call = super()._parse_function_call(*args, **options)
        inner = call
        while isinstance(inner, exp.Window | exp.Filter | exp.WithinGroup | exp.IgnoreNulls | exp.RespectNulls):
            inner = inner.this
        if isinstance(inner, exp.Func):
            inner.meta.setdefault(nodes.WRITTEN_NAME, written)
        return call

    def _parse_table_alias(self, alias_tokens: Any = None) -> exp.TableAlias | None:
        """`Sample (10)`, EMIT FINAL and MATCH_RECOGNIZE ( are not aliases."""
        if (self._ahead(0) == "SAMPLE" and self._ahead(1) == "(") or self._at_emit() or self._at_pattern():
            return None
        token, marked = self._curr, self._ahead(0) == "AS"
        if self._ahead(0) == "GRANULARITY" and self._ahead(1) == "(":
            hint = "over other windows use SLIDE, over relations R[Sync](…)"
            raise place_of(token).error("GRANULARITY can only follow WINDOW(…), once", hint)
        alias = super()._parse_table_alias(alias_tokens)
        if alias is not None and not all(map(_names_a_column, alias.args.get("columns") or ())):
            after = "AS" if marked else "an item of FROM"
            hint = "an alias is a name, with names of columns in parentheses: AS w(a, b)"
            raise place_of(token).error(f'"{token.text}(…)" is not allowed after {after}', hint)
        return alias

    def _parse_alias(self, this: Any = None, explicit: bool = False) -> Any:
        """Also parses `sum(a) AS s OVER (…)`, as ESL's paper prints it."""
        named = super()._parse_alias(this, explicit)
        if isinstance(named, exp.Alias) and self._curr.token_type == TokenType.OVER:
            named.set("this", self._parse_window(named.this))
        return named

    def _parse_bracket(self, this: Any = None) -> Any:
        """A bracket after an item of FROM is a window, not a subscript."""
        return this if isinstance(this, exp.Table) else super()._parse_bracket(this)

    def _parse_factor(self, parse_mod: bool = True) -> exp.Expr | None:
        """Also parses SyncSQL's `Timepoint mod 2`."""
        this = super()._parse_factor(parse_mod)
        while self._curr.token_type == TokenType.VAR and self._ahead(0) == "MOD" and self._next.token_type in _OPERANDS:
            self._advance()
            this = self.expression(exp.Mod(this=this, expression=self._parse_unary()))
        return this

    def _parse_comparison(self, this: exp.Expr | None = None) -> exp.Expr | None:
        """Also parses chained comparisons: `a < b <= c` is `a < b AND b <= c`."""
        left = this or self._parse_range()
        tests: list[exp.Expr] = []
        while self._match_set(self.COMPARISON):
            kind = self.COMPARISON[self._prev.token_type]
            right = self._parse_range()
            tests.append(self.expression(kind(this=left.copy() if tests and left else left, expression=right)))
            left = right
        if len(tests) < 2:
            return tests[0] if tests else left
        return exp.Paren(this=exp.and_(*tests, wrap=False, copy=False))


def _lifted(select: exp.Select, stream: exp.Expr) -> exp.Select:
    """`SELECT Istream(list) …` as `SELECT * FROM Istream(SELECT list …)`."""
    select.set("expressions", stream.expressions)
    if stream.args.get("distinct"):
        select.set("distinct", exp.Distinct())
    return nodes.stream_of_query(select, str(stream.args["kind"]), stream.meta)


def _wrapped(tree: exp.Expr | None) -> exp.Expr | None:
    if tree is not None:
        tree = nodes.without_bare_values(tree)
    reads = isinstance(tree, exp.Query) and tree.find(exp.Table) is not None
    return nodes.WholeQuery(this=tree) if reads else tree


def _names_a_column(node: exp.Expr) -> bool:
    """Whether an item in the parentheses of an alias is the name of a column, not `5` or `5 SECONDS`."""
    return isinstance(node, exp.Identifier) and (bool(node.args.get("quoted")) or not node.name[:1].isdigit())
