"""Random statements: from the whole grammar, mutated, deeply nested, with odd names and huge literals, and random
characters.

All choices are drawn from one generator, so that a seed gives the same statements in every run.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from operators.aggregates import AGGREGATES
from operators.expressions import FUNCTIONS

T = TypeVar("T")
ROOT = Path(__file__).parent.parent
#: Objects that exist at the beginning, so that not all statements fail with an unknown name.
BASE = """
REGISTER SOURCE src (k INT NOT NULL, v BIGINT, s VARCHAR, d DOUBLE, m DECIMAL(9, 2), f BOOLEAN, t TIMESTAMP,
    a INT[], r STRUCT(x INT, y VARCHAR)) FROM "fuzz-src" PARTITIONS 2;
CREATE STREAM st OVER src KEY k; CREATE STREAM ap OVER src KEY NULL;
CREATE TABLE tab (k INT PRIMARY KEY, v BIGINT, s VARCHAR);
CREATE VIEW hot AS SELECT k, v, s FROM R(st) WHERE v > 1;
CREATE COMPLETE VIEW sums AS SELECT s, SUM(v) AS v, COUNT(*) AS k FROM R(st) GROUP BY s;
CREATE VIEW every2 AS SELECT Timepoint FROM R(clockStr) WHERE mod(Timepoint, 2) = 0
"""
RELATIONS = ("R(st)", "st", "ap", "hot", "sums", "tab", "R(ap)", "every2", "src", "w1", "w2", "clockStr")
COLUMNS = ("k", "v", "s", "d", "m", "f", "t", "a", "r", "r.x", "TS", "x.k", "x.v", "y.k", "Now", "nothing")
NAMES = ("w1", "w2", "w3", "q1", "q2", "q3", "n1", "n2", "st", "hot", "tab", "src", "sums")
TOPICS = ("fuzz-src", "fuzz-a", "fuzz-b", "dsms.hot", "_dsms.local.progress", "__consumer_offsets", "a/b", "")
ODD_NAMES = (
    "x" * 300, "x" * 201, "ß", "räume", "a.b", "a-b", "..", ".", "_dsms.local.catalog", "__x", "dsms_operators",
    "1a", "",
    "a b", "select", 'q"q', "\0", "\n", "𝔘", "²", "R", "ℜ", "TS", "Now", "src.dead-letters", "%s", "{}", "'", "\u202e",
)  # fmt: skip
TYPES = (
    "INT", "BIGINT", "TINYINT", "DOUBLE", "FLOAT", "DECIMAL(9, 2)", "DECIMAL(38, 38)", "DECIMAL(99, 1)", "VARCHAR",
    "BOOLEAN",
    "DATE", "TIMESTAMP", "INTERVAL", "BLOB", "UUID", "INT[]", "INT[][]", "STRUCT(x INT)", "ARRAY<STRUCT<a INT>>",
    "JSON",
    "MAP(INT, INT)", "NOTHING", "VARCHAR(10)", "UINTEGER", "TIME", "TIMESTAMPTZ", "DECIMAL", "DECIMAL(0)", "ROW(a INT)",
)  # fmt: skip
LITERALS = (
    "0", "1", "-1", "2", "10", "127", "2147483648", "9223372036854775807", "-9223372036854775808",
    "9223372036854775808",
    "9" * 38, "9" * 39, "9" * 400, "1" * 5_000, "0.1", "1e10", "1e400", "1e-400", "1e999999999", "." + "9" * 50,
    "NULL", "TRUE",
    "FALSE", "''", "'a'", "'%a_'", "'é'", "'" + "x" * 1_000 + "'", "DATE '2024-01-31'", "DATE '9999-99-99'", "DATE 'x'",
    "TIMESTAMP '2024-01-31 12:00:00'", "TIMESTAMP '0001-01-01 00:00:00'", "INTERVAL '1' DAY",
    "INTERVAL '1 day 2 hours'",
    "INTERVAL '99999999999999999999' YEAR", "INTERVAL 'x'", "X'00FF'", "X'0'", "b'01'", "ARRAY[1, 2]", "ARRAY[]",
    "[1, NULL]",
    "ROW(1, 2)", "{'x': 1}", "STRUCT(1 AS x)", "UUID 'x'", "UUID '123e4567-e89b-12d3-a456-426614174000'",
    "'NaN'::DOUBLE",
    "CAST('inf' AS DOUBLE)", "E'\\n'", "$$x$$", "?", ":x", "@x", "$1", "'2024-01-31'", "'[1, 2]'", "'{\"a\": 1}'",
    "'$.a'",
)  # fmt: skip
BINARY = (
    "+", "-", "*", "/", "%", "=", "<>", "<", "<=", ">", ">=", "AND", "OR", "||", "LIKE", "ILIKE", "NOT LIKE", "~",
    "~*", "!~",
    "SIMILAR TO", "IS DISTINCT FROM", "IS NOT DISTINCT FROM", "&", "|", "^", "#", "<<", ">>", "->", "->>", "::",
    ":=", "mod",
    "COLLATE", "@>", "<@", "&&", "?", "BETWEEN", "IN", "**", "//", "DIV", "XOR", "≤", "∪", "AT TIME ZONE", "OVERLAPS",
)  # fmt: skip
#: Functions of DuckDB and PostgreSQL that this system does not have. They must be refused, not run.
FOREIGN = (
    "pg_sleep", "sleep_ms", "write_log", "current_setting", "getvariable", "range", "unnest", "generate_series",
    "read_csv",
    "read_parquet", "read_text", "glob", "getenv", "query", "query_table", "duckdb_settings", "version", "now",
    "random", "uuid",
    "repeat", "list", "list_transform", "regexp_split_to_array", "format", "printf", "nextval", "txid_current",
    "md5", "sha256",
    "lpad", "rpad", "array_agg", "histogram", "json_serialize_sql", "parse_path", "current_user", "pi", "foo",
)  # fmt: skip
WORDS = (
    "SELECT", "STREAMED", "COMPLETE", "FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "OFFSET", "UNION",
    "ALL",
    "EXCEPT", "INTERSECT", "JOIN", "LEFT", "FULL", "ASOF", "ON", "USING", "AS", "WITH", "RECURSIVE", "CASE", "WHEN",
    "THEN",
    "ELSE", "END", "NOT", "EXISTS", "ANY", "DISTINCT", "OVER", "PARTITION BY", "ROWS", "RANGE", "SLIDE", "Now",
    "Istream(",
    "Rstream(", "EMIT FINAL", "LATERAL", "UNNEST", "VALUES", "INTERVAL", "CAST(", "EXTRACT(", "TUMBLE(TABLE",
    "DESCRIPTOR(",
    "CREATE", "REPLACE", "VIEW", "QUERY", "STREAM", "TABLE", "DROP", "CASCADE", "IF", "SHOW", "EXPLAIN", "ANALYZE",
    "DESCRIBE",
    "INSERT INTO", "UPDATE", "SET", "DELETE FROM", "REGISTER SOURCE", "KEY", "NULL", "PAUSE", "RESUME", "ALTER",
    "REPAIR",
    "COPY", "LOAD", "(", ")", "[", "]", ",", ";", ".", "*", "=", "<", ">", "'", '"', "--", "/*", "*/", "$$", "{",
    "}", "::",
    "\0", "\ufeff", "\u2028",
)  # fmt: skip
_BLOCK = re.compile(r"```sql[^\n]*\n(.*?)```", re.DOTALL)
_TOKEN = re.compile(r"\s+|\w+|.", re.DOTALL)


def corpus() -> list[str]:
    """The statements in the documents and in the golden files."""
    texts = [block for file in sorted(ROOT.glob("docs/*.md")) for block in _BLOCK.findall(file.read_text())]
    statements = [part.strip() for text in texts for part in text.split(";")]
    return [*filter(None, statements), *(ROOT / "tests/golden/wrong_statements.sql").read_text().splitlines()]


class StatementGrammar:
    """Draws statements; `next` gives one, or several separated by semicolons."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._corpus = corpus()
        self._functions = [*FUNCTIONS, *AGGREGATES]

    def next(self) -> str:
        """A statement of any kind."""
        kinds: tuple[tuple[float, Callable[[], str]], ...] = (
            (30, self.select),
            (12, self.continuous),
            (14, self.declaration),
            (8, self.rows),
            (8, self.administration),
            (14, self.mutated),
            (6, self.deep),
            (4, self.long),
            (4, self.words),
            (3, self.characters),
        )
        text = self._weighted(kinds)()
        return f"{text}; {self.administration()}" if self._often(0.03) else text

    # --- queries

    def select(self, depth: int = 0) -> str:
        """A query; at depth 0 one-time or continuous."""
        word = (
            self._one(("", "", "STREAMED ", "COMPLETE ", "DISTINCT "))
            if depth == 0
            else self._one(("", "", "DISTINCT "))
        )
        listed = ", ".join(self._output(depth) for _ in range(self._count(4)))
        listed = f"Istream({listed})" if self._often(0.04) else "*" if self._often(0.15) else listed
        text = f"SELECT {word}{listed} FROM {self._from(depth)}"
        text += f" WHERE {self.expression(depth + 1)}" if self._often(0.5) else ""
        if self._often(0.25):
            text += f" GROUP BY {self._group(depth)}"
            text += f" HAVING {self.expression(depth + 1)}" if self._often(0.3) else ""
        text += f" ORDER BY {self.expression(depth + 2)} DESC" if self._often(0.12) else ""
        text += f" LIMIT {self._one(('1', '3', '0', '-1', '9' * 30, 'k', 'NULL', '1.5'))}" if self._often(0.12) else ""
        text += " EMIT FINAL" if self._often(0.03) else ""
        if self._often(0.06) and depth < 3:
            text = f"{text} {self._one(('UNION', 'UNION ALL', 'EXCEPT', 'INTERSECT ALL'))} {self.select(depth + 1)}"
        if self._often(0.06) and depth < 2:
            text = f"WITH c AS ({self.select(depth + 1)}) {text}"
        return text

    def _group(self, depth: int) -> str:
        plain = ", ".join(self.expression(depth + 2) for _ in range(self._count(2)))
        return self._one(
            (plain, plain, plain, "1", "9", f"GROUPING SETS (({plain}), ())", f"ROLLUP ({plain})", "ALL", "()")
        )

    def _output(self, depth: int) -> str:
        value = self.expression(depth + 1)
        return f"{value} AS {self._name()}" if self._often(0.5) else value

    def _from(self, depth: int) -> str:
        items = [self._item(depth)]
        while self._often(0.25) and len(items) < 5:
            join = self._one(
                (", ", " JOIN ", " LEFT JOIN ", " FULL JOIN ", " CROSS JOIN ", " ASOF JOIN ", " NATURAL JOIN ")
            )
            condition = self._one((" ON x.k = y.k", " USING (k)", f" ON {self.expression(depth + 2)}", ""))
            items.append(join + self._item(depth) + condition)
        return "".join(items)

    def _item(self, depth: int) -> str:
        relation = self._one(RELATIONS)
        forms = [
            relation, relation, f"{relation} x", f"{relation} y", f"{relation} x",
            f"{relation} [Range {self._one(('5', '5 Minutes', 'Unbounded', '9' * 30, '-1'))} Slide 2]",
            f"{relation} [Now]",
            f"{relation} [Rows {self._one(('3', '0', '9' * 20))}]", f"{relation} [Partition By k Rows 2]",
            f"{relation} WINDOW(RANGE {self._one(('1', '10 MINUTES', '0'))})", f"R[every2]({relation})",
            f"R[{self._one(('every2', 'hot', 'nothing'))}]({relation})", f"Istream({relation})",
            f"{relation} Sample(10)",
            f"TABLE(TUMBLE(TABLE {relation}, DESCRIPTOR(TS), INTERVAL '10' SECOND))",
            f"HOP(TABLE {relation}, DESCRIPTOR(TS), {self._one(('1', '0', '-5', '7'))}, 5)",
            f"SESSION(TABLE {relation} PARTITION BY k, DESCRIPTOR(TS), 5)",
            f"GENERATE_SERIES(TABLE {relation}, DESCRIPTOR(k, v), {self._one(('1', '0', '-1'))})",
            f"(VALUES (1, 'a'), ({self.expression(4)}, {self.expression(4)})) x(k, s)",
            f"{self._one(FOREIGN)}({self.expression(4)})", "UNNEST(ARRAY[1, 2]) u", f"{relation} TABLESAMPLE (5)",
        ]  # fmt: skip
        if depth < 3:
            forms += [f"({self.select(depth + 1)}) x", f"LATERAL ({self.select(depth + 1)}) y"]
        return self._one(forms)

    # --- expressions

    def expression(self, depth: int = 0) -> str:
        """An expression; the deeper it is nested, the simpler it is."""
        if depth > 4 or self._often(0.25 + depth * 0.12):
            return self._one(COLUMNS) if self._often(0.55) else self._one(LITERALS)
        return self._weighted(
            (
                (30, self._binary),
                (20, self._call),
                (5, lambda depth: f"NOT ({self.expression(depth)})"),
                (4, lambda depth: f"-{self.expression(depth)}"),
                (4, lambda depth: f"({self.expression(depth)}) IS {self._one(('NULL', 'NOT NULL', 'TRUE', 'JSON'))}"),
                (5, lambda depth: f"{self.expression(depth)} IN ({self.expression(depth)}, {self.expression(depth)})"),
                (
                    4,
                    lambda depth: (
                        f"{self.expression(depth)} BETWEEN {self.expression(depth)} AND {self.expression(depth)}"
                    ),
                ),
                (6, self._case),
                (6, self._cast),
                (4, self._over),
                (4, self._subquery),
                (2, lambda depth: f"({self.expression(depth)})[{self.expression(depth)}]"),
                (2, lambda depth: f"({self.expression(depth)}).{self._name()}"),
                (2, lambda depth: f"EXTRACT({self._one(('DAY', 'x', 'EPOCH', 'WEEK'))} FROM {self.expression(depth)})"),
                (
                    1,
                    lambda depth: (
                        f"{self.expression(depth)} LIKE {self.expression(depth)} ESCAPE {self._one(LITERALS)}"
                    ),
                ),
            )
        )(depth + 1)

    def _binary(self, depth: int) -> str:
        operator = self._one(BINARY[:20] if self._often(0.8) else BINARY)
        return f"{self.expression(depth)} {operator} {self.expression(depth)}"

    def _call(self, depth: int) -> str:
        name = self._one(FOREIGN) if self._often(0.15) else self._one(self._functions)
        given = ", ".join(self.expression(depth) for _ in range(self._count(4) - 1))
        ends = ("", "", "", "", " FILTER (WHERE v > 1)", " WITHIN GROUP (ORDER BY v)")
        return f"{name}({self._one(('', '', '', 'DISTINCT '))}{given}){self._one(ends)}"

    def _case(self, depth: int) -> str:
        branches = " ".join(
            f"WHEN {self.expression(depth)} THEN {self.expression(depth)}" for _ in range(self._count(3))
        )
        return f"CASE {self._one(('', '', self.expression(depth)))} {branches} ELSE {self.expression(depth)} END"

    def _cast(self, depth: int) -> str:
        value, type_ = self.expression(depth), self._one(TYPES)
        return self._one((f"CAST({value} AS {type_})", f"TRY_CAST({value} AS {type_})", f"({value})::{type_}"))

    def _over(self, depth: int) -> str:
        function = self._one(
            ("ROW_NUMBER()", "RANK()", "SUM(v)", "LAG(v)", "NTILE(4)", "FIRST_VALUE(v)", "COUNT(*)", "foo()")
        )
        frame = self._one(
            ("", "", "ROWS 3 PRECEDING", "RANGE BETWEEN 5 PRECEDING AND CURRENT ROW", "ROWS -1 PRECEDING")
        )
        return (
            f"{function} OVER (PARTITION BY {self.expression(depth + 1)} ORDER BY {self.expression(depth + 1)} {frame})"
        )

    def _subquery(self, depth: int) -> str:
        if depth > 3:
            return "(SELECT MAX(v) FROM R(st))"
        query = self.select(depth + 1)
        return self._one(
            (f"EXISTS ({query})", f"v IN ({query})", f"({query})", f"v > ALL ({query})", f"ARRAY({query})")
        )

    # --- statements

    def continuous(self) -> str:
        """A view or a query."""
        kind = self._one(("VIEW", "STREAMED VIEW", "COMPLETE VIEW", "QUERY", "MATERIALIZED VIEW"))
        options = ", ".join(f"{name} = {value}" for name, value in self._options())
        head = self._one(("CREATE", "CREATE", "CREATE", "CREATE OR REPLACE"))
        simple = f"SELECT k, v, s FROM {self._one(RELATIONS)} WHERE {self.expression(2)}"
        query = simple if self._often(0.5) else self.select(1)
        return f"{head} {kind} {self._name()} {f'WITH ({options}) ' if options else ''}AS {query}"

    def _options(self) -> list[tuple[str, str]]:
        choices = {
            "topic": f"'{self._one(TOPICS)}'", "partitions": self._one(("1", "3", "0", "-1", "1000", "9" * 30, "x")),
            "format": self._one(("avro", "json", "x")), "weight": self._one(("2", "-1", "1e400", "nan", "x")),
            "max_error": self._one(("0.1", "2", "x")),
            "max_loss": self._one(("0.5", "1", "x")), "deadline": self._one(("'5 SECONDS'", "'x'", "9")),
            "start": self._one(("earliest", "latest", "5", "-5", "'2024-01-01'", "9" * 30, "TIMESTAMP '2024-01-01'")),
            "shed_where": self._one(("'v > 1'", "'('", "'" + "(" * 500 + "'", "''")),
            "shared": self._one(("true", "maybe")),
            "state_memory": self._one(("'5 MB'", "none", "'x'", "'" + "9" * 400 + " GB'")), "nothing": "1",
        }  # fmt: skip
        return self._random.sample(sorted(choices.items()), self._one((0, 0, 0, 0, 1, 1, 2)))

    def declaration(self) -> str:
        """A source, a stream or a table."""
        columns = ", ".join(
            f"{self._name()} {self._one(TYPES)}{self._one(('', '', ' NOT NULL'))}" for _ in range(self._count(4))
        )
        clauses = self._one((
            "", "", "FORMAT AVRO", "FORMAT x", "TIMESTAMP BY k", "TIMESTAMP FROM RECORD", "TIMESTAMP LATENT",
            "SLACK 5 SECONDS",
            f"SLACK {'9' * 30}", "IDLE NEVER", "AHEAD ANY",
            "AHEAD 2 DAYS", "IDLE AFTER 5 MINUTES", "TAGGED NONE", "TAGGED BY k",
            "REGISTRY 'http://x'",
            "CONSTRAINT ORDERED BY k WITHIN 5", "CONSTRAINT k REFERENCES src (k) WITHIN 10", "CONSTRAINT x", "SLACK",
        ))  # fmt: skip
        topic, partitions = (
            self._quoted(self._one(TOPICS)),
            self._one(("", "", "PARTITIONS 1", "PARTITIONS 0", "PARTITIONS x")),
        )
        return self._one((
            f"REGISTER SOURCE {self._name()} ({columns}) FROM {topic} {partitions} {clauses}",
            f"REGISTER SOURCE {self._name()} ({columns}) FROM {topic} {clauses} {partitions}",
            f"CREATE STREAM {self._name()} OVER {self._name()} KEY {self._one(('k', 'NULL', 'k, v', '(k, k)', 'a'))}",
            f"CREATE STREAM {self._name()} ({columns}) ORDER BY {self._one(('k', 'x'))} SOURCE '{self._one(TOPICS)}'",
            f"CREATE STREAM {self._name()} AS {self.select(1)}",
            f"CREATE TABLE {self._name()} ({columns}, PRIMARY KEY ({self._name()}))",
            f"CREATE TABLE {self._name()} (k {self._one(TYPES)} PRIMARY KEY, {columns})",
        ))  # fmt: skip

    def rows(self) -> str:
        """A statement about the rows of tables."""
        values = ", ".join(
            f"({self.expression(3)}, {self.expression(3)}, {self.expression(3)})" for _ in range(self._count(3))
        )
        table = self._one(("tab", "tab", "tab", "hot", "nothing"))
        return self._one((
            f"INSERT INTO {table} VALUES {values}", f"INSERT INTO {table} (k, v, s) VALUES {values}",
            f"INSERT INTO {table} (k, v, s) VALUES (1, 2, 'a'), (2, 3, 'b')", f"INSERT INTO {table} {self.select(1)}",
            f"INSERT INTO {table} (k, k) VALUES (1, 1)", f"INSERT INTO {table}",
            f"UPDATE {table} SET v = {self.expression(2)}",
            f"UPDATE {table} SET {self._name()} = {self.expression(3)} WHERE {self.expression(2)}",
            f"UPDATE {table} SET k = 1",
            f"MERGE INTO {table} USING {table} AS m ON {self.expression(2)} WHEN MATCHED THEN DELETE "
            f"WHEN NOT MATCHED THEN INSERT VALUES ({self.expression(2)}, 1, 'm')",
            f"DELETE FROM {table} WHERE {self.expression(1)}", f"DELETE FROM {table}",
            f"COPY {table} FROM '{self._one(('x.csv', '/etc/passwd', '../x', ''))}' WITH (FORMAT csv)",
            f"LOAD TABLE {table} FROM DATABASE '{self._one(('sqlite://', 'sqlite:////no/such', 'x', 'mysql://'))}' "
            f"QUERY '{self._one(('SELECT 1 AS k', 'DROP TABLE x', 'x', ''))}'",
        ))  # fmt: skip

    def administration(self) -> str:
        """A statement about objects or running entities."""
        name, kind = self._name(), self._one(("SOURCE", "STREAM", "TABLE", "VIEW", "QUERY", "NOTHING"))
        return self._one((
            f"DROP {kind} {name}", f"DROP {kind} IF EXISTS {name} CASCADE", f"SHOW {kind}S", f"SHOW {kind}",
            "SHOW EXECUTORS",
            f"SHOW {self._one(('OPERATORS', 'QUEUES', 'SYNOPSES', 'CONSTRAINTS'))} FOR {name}", "SHOW OPERATORS",
            "SHOW AUDIT", "SHOW SINKS", f"SHOW CREATE SINK {name}", f"DROP SINK {name}", f"ALTER SINK {name} RESTART",
            f"CREATE SINK {name} FROM {self._name()} INTO '{self._one(('/etc', 'x', 'sqlite://', 'delta:s3://a/b'))}' "
            f"WITH (every = {self._one(LITERALS)}, changes = {self._one(LITERALS)})",
            f"SHOW CREATE {kind} {name}", f"SHOW CREATE {name}", f"DESCRIBE {name}", f"DESCRIBE {kind} {name}",
            f"EXPLAIN {name}", f"EXPLAIN {self.select(1)}", f"EXPLAIN ANALYZE {name}", f"PAUSE QUERY {name}",
            f"REPLAY DEAD LETTERS OF {name} WHERE {self._one(LITERALS)}",
            f"SKIP RECORD OF {name} PARTITION {self._one(LITERALS)} OFFSET {self._one(LITERALS)}",
            f"RESUME QUERY {name}",
            f"REPAIR QUERY {name}", f"ALTER QUERY {name} SET (weight = {self._one(LITERALS)})",
            f"ALTER {self._one(('VIEW', 'EXECUTOR', 'TABLE'))} {name} SET (policy = chain, state_memory = '1 GB')",
        ))  # fmt: skip

    # --- others

    def mutated(self) -> str:
        """A statement from the documents, or a drawn one, with words swapped, left out, doubled or replaced."""
        drawn = (self.select, self.continuous, self.declaration, self.administration)
        text = self._one(self._corpus) if self._often(0.7) else self._one(drawn)()
        tokens = _TOKEN.findall(text)
        for _ in range(self._count(4)):
            if len(tokens) < 2:
                break
            at, other = self._random.randrange(len(tokens)), self._random.randrange(len(tokens))
            change = self._one(("swap", "drop", "double", "word", "literal", "character"))
            if change == "swap":
                tokens[at], tokens[other] = tokens[other], tokens[at]
            elif change == "drop":
                del tokens[at]
            elif change == "double":
                tokens.insert(at, tokens[other])
            else:
                tokens[at] = self._one(
                    {"word": WORDS, "literal": LITERALS}.get(change, ("\0", "é", "'", '"', "(", "\ud800"))
                )
        return "".join(tokens)

    def deep(self) -> str:
        """A nested statement, up to and beyond the allowed depth."""
        depth = self._one((3, 10, 20, 40, 49, 60, 200, 1_000, 3_000))
        opened, inner, closed = self._one((
            ("(", "v > 1", ")"), ("NOT ", "v > 1", ""), ("-", "v", ""), ("- ", "1", ""), ("abs(", "v", ")"),
            ("[", "1", "]"),
            ("ARRAY[", "v", "]"), ("CASE WHEN v > 1 THEN ", "1", " END"), ("CAST(", "v", " AS INT)"),
            ("STRUCT(", "v", ")"),
            ("(SELECT MAX(v) FROM R(st) WHERE v > ", "1", ")"), ("v IN (SELECT v FROM R(st) WHERE ", "v > 1", ")"),
            ("EXISTS (SELECT k FROM hot WHERE ", "k = 1", ")"), ("v + (", "1", ")"), ("coalesce(v, ", "1", ")"),
            ("", "v", "::INT"),
            ("v > 1 AND (", "v > 2", ")"), ("DATE(", "t", ")"), ("INTERVAL ", "'1' DAY", ""), ("", "a", "[1]"),
            ("", "r", ".x"),
            ("{'x': ", "1", "}"), ("ROW(", "1", ")"), ("SUM(", "v", ")"), ("x -> ", "x", ""), ("DISTINCT ", "v", ""),
        ))  # fmt: skip
        value = opened * depth + inner + closed * depth
        source = self._one(("SELECT * FROM (", "(", "SELECT k FROM R(st) WHERE k IN ("))
        return self._one((
            f"SELECT {value} FROM hot", f"CREATE QUERY q1 AS SELECT k, v FROM R(st) WHERE {value}",
            f"SELECT STREAMED {value} AS o FROM st",
            f"INSERT INTO tab VALUES (1, {value}, 'a')", f"UPDATE tab SET v = {value}",
            f"EXPLAIN SELECT {value} FROM st",
            f"{source * depth}SELECT k FROM hot{')' * depth}",
            f"REGISTER SOURCE n1 (a INT{'[]' * depth}) FROM \"fuzz-a\" PARTITIONS 1",
            f"REGISTER SOURCE n2 (a {'STRUCT<a ' * depth}INT{'>' * depth}) FROM \"fuzz-b\" PARTITIONS 1 FORMAT AVRO",
        ))  # fmt: skip

    def long(self) -> str:
        """A chain or a list, up to and beyond the allowed length."""
        count = self._one((20, 100, 190, 300, 1_000, 2_500, 6_000))
        numbers = range(count)
        return self._one((
            lambda: f"CREATE QUERY q2 AS SELECT k, v FROM R(st) WHERE {' OR '.join(f'v = {n}' for n in numbers)}",
            lambda: f"CREATE QUERY q2 AS SELECT k, v FROM R(st) WHERE {' AND '.join(f'v <> {n}' for n in numbers)}",
            lambda: f"SELECT k FROM hot WHERE v IN ({', '.join(map(str, numbers))})",
            lambda: f"CREATE QUERY q2 AS SELECT k, v FROM R(st) WHERE v IN ({', '.join(map(str, numbers))})",
            lambda: f"CREATE QUERY q3 AS SELECT {', '.join(f'v AS v{n}' for n in numbers)} FROM R(st)",
            lambda: f"CREATE QUERY q3 AS SELECT s, {', '.join(f'SUM(v + {n})' for n in numbers)} FROM R(st) GROUP BY s",
            lambda: f"SELECT {' + '.join('v' for _ in numbers)} FROM hot",
            lambda: f"SELECT {' || '.join(['s'] * count)} FROM hot",
            lambda: f"CREATE QUERY q3 AS {' UNION ALL '.join(f'SELECT k, v FROM st WHERE v > {n}' for n in numbers)}",
            lambda: f"CREATE QUERY q3 AS SELECT k FROM st x{''.join(f' JOIN st x{n} ON x{n}.k = 1' for n in numbers)}",
            lambda: f"INSERT INTO tab VALUES {', '.join(f'({n}, 1, NULL)' for n in numbers)}",
            lambda: f"REGISTER SOURCE n1 ({', '.join(f'c{n} INT' for n in numbers)}) FROM \"fuzz-a\" PARTITIONS 1",
            lambda: f"SELECT CASE {' '.join(f'WHEN v = {n} THEN {n}' for n in numbers)} END AS c FROM hot",
            lambda: f"SELECT concat({', '.join(['s'] * count)}) AS c FROM hot", lambda: ";" * count,
            lambda: "SELECT 1;" * min(count, 100),
            lambda: f"SELECT '{'x' * count * 100}' AS x", lambda: f"SELECT s LIKE '{'%a' * count}' AS x FROM hot",
            lambda: f"CREATE QUERY q3 AS SELECT k, v FROM R(st) WHERE s ~ '{'(a|b?)' * count}'",
            lambda: f"/*{'x' * count}*/ SELECT 1",
            lambda: f"SELECT {'9' * count} AS x", lambda: f"SELECT k AS {'x' * count} FROM hot",
            lambda: f"WITH {', '.join(f'c{n} AS (SELECT 1 AS a)' for n in numbers)} SELECT * FROM c1",
        ))()  # fmt: skip

    def words(self) -> str:
        """Words in any order."""
        pool: Sequence[Sequence[str]] = (WORDS, WORDS, WORDS, NAMES, COLUMNS, LITERALS)
        return " ".join(self._one(self._one(pool)) for _ in range(self._random.randrange(25)))

    def characters(self) -> str:
        """Random characters, including lone surrogates and control characters."""
        ranges = ((0, 127), (32, 126), (0, 0x2FF), (0x1F300, 0x1F600), (0xD800, 0xDFFF), (0, 0x10FFFF))
        low, high = self._one(ranges)
        return "".join(chr(self._random.randint(low, high)) for _ in range(self._random.randrange(60)))

    # --- drawing

    def _name(self) -> str:
        return self._quoted(self._one(ODD_NAMES)) if self._often(0.08) else self._one(NAMES)

    def _quoted(self, name: str) -> str:
        return '"' + name.replace('"', '""') + '"' if self._often(0.9) else name

    def _often(self, share: float) -> bool:
        return self._random.random() < share

    def _count(self, most: int) -> int:
        return self._random.randint(1, most)

    def _one(self, choices: Sequence[T]) -> T:
        return choices[self._random.randrange(len(choices))]

    def _weighted(self, choices: Sequence[tuple[float, T]]) -> T:
        weights = [weight for weight, _ in choices]
        return self._random.choices([choice for _, choice in choices], weights)[0]
