"""Python code for the statements in the body of an aggregate: loops over local tables, with a budget of steps."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from operators.expressions.tree import Column, Expression, Literal, columns
from operators.user_aggregates.conditions import all_of, conjuncts, equal_sides, present
from operators.user_aggregates.definition import (
    RETURN_TABLE,
    WINDOW_TABLE,
    Definition,
    Delete,
    Fold,
    If,
    Insert,
    Query,
    Scan,
    Statement,
    Subquery,
    Update,
    While,
    query_expressions,
    subqueries_of,
)
from operators.user_aggregates.expression_code import Code, ExpressionCoder
from operators.user_aggregates.writer import Nulls, Writer

#: The code of a value that only a statement can change: a parameter, or a column of a table with a single row.
_LASTING = re.compile(r"[PV]_\w+")
#: Takes the codes of the values in a row of a query and writes the code that uses the row.
Sink = Callable[[list[Code]], None]


class StatementCoder:
    """Writes statements of a definition. `names` has the code of parameters."""

    def __init__(self, definition: Definition, writer: Writer, names: dict[str, Code], nulls: Nulls) -> None:
        self.definition = definition
        self.writer = writer
        self.names = dict(names)
        self.nulls = nulls
        self.coder = ExpressionCoder(self.names)
        self.indexes: dict[str, list[tuple[int, ...]]] = {table.name: [] for table in definition.tables}
        #: Whether `indexes` has all indexes that any statement needs.
        self.indexes_known = False
        self.inner: dict[str, Definition] = {}
        self.loops = False
        #: The indexes that are searched, by table and number, and the tables whose rows are changed in place.
        self.searched: set[tuple[str, int]] = set()
        self.changed: set[str] = set()
        self._inside = 0
        #: The variables with results of lookups that are still valid, by table, index and keys.
        self._found: dict[tuple[str, int, str], str] = {}
        self._level = 0
        self._target = ""
        self._subqueries = {subquery.name: subquery for subquery in definition.subqueries}

    # --- statements

    def clause(self, statements: Iterable[Statement]) -> None:
        """Writes the statements of a clause. It reuses no lookups of other clauses, which may not have run."""
        self._found = {}
        self.statements(statements)

    def statements(self, statements: Iterable[Statement]) -> None:
        """Writes statements one after the other."""
        for at, statement in enumerate(statements):
            self._found = {} if at else self._found  # only the first statement may reuse lookups of a condition
            self.writer.place, self._level = statement.place, self.writer.depth
            self._target = "" if isinstance(statement, If | While) else _written(statement)
            for name in self._subqueries:  # subqueries are evaluated again for each statement
                self.names.pop(name, None)
            match statement:
                case Insert():
                    self._insert(statement)
                case Update():
                    self._update(statement)
                case Delete():
                    self._delete(statement)
                case If():
                    self._if(statement)
                case While():
                    self._while(statement)

    def _if(self, statement: If) -> None:
        self._prepare([statement.condition], frozenset())
        found = self._found
        with self.writer.block(f"if {self.coder.truth(statement.condition)}:"):
            self._found = dict(found)
            self.statements(statement.then)
        if statement.otherwise:
            self._found = dict(found)
            with self.writer.block("else:"):
                self.statements(statement.otherwise)
        self._found = {}

    def _while(self, statement: While) -> None:
        self._found = {}
        with self.writer.block("while True:"):
            self._step()
            self._prepare([statement.condition], frozenset())
            self.writer.line(f"if not {self.coder.truth(statement.condition)}: break")
            self._found = {}
            self.statements(statement.body)
        self._found = {}

    def _step(self) -> None:
        self.loops = True
        self.writer.line("if (steps := steps - 1) < 0: raise LimitReached('its loops take too many steps')")

    def _insert(self, statement: Insert) -> None:
        if statement.table == RETURN_TABLE:
            for query in statement.queries:
                self.query(query, self._returned)
            return
        table = self.definition.table(statement.table)
        if table.single:
            (query,) = statement.queries
            self.query(query, lambda codes: self._assign(table.name, [name for name, _ in table.columns], codes))
            return
        for query in statement.queries:
            self._found = {}
            if self._reads(query_expressions(query), query.scans, table.name):
                made = self._collected(query)
                with self.writer.block(f"for row in {made}:"):
                    self.writer.line(f"T_{table.name}.insert(list(row))")
                self._store_nulls(table.name, query)
            else:
                self.query(query, lambda codes: self._insert_row(table.name, codes))

    def _insert_row(self, table: str, codes: list[Code]) -> None:
        for (name, _), code in zip(self.definition.table(table).columns, codes, strict=True):
            self.nulls.assign(table, name, code)
        self.writer.line(f"T_{table}.insert([{', '.join(code.text for code in codes)}])")

    def _store_nulls(self, table: str, query: Query) -> None:
        for (name, _), _output in zip(self.definition.table(table).columns, query.outputs, strict=True):
            self.nulls.assign(table, name, Code("", True))

    def _returned(self, codes: list[Code]) -> None:
        self.writer.line("returned_at(i)")
        text = (
            codes[0].text
            if len(codes) == 1
            else "{"
            + ", ".join(f"{name!r}: {code.text}" for name, code in zip(self.definition.fields, codes, strict=True))
            + "}"
        )
        self.writer.line(f"returned({text})")

    def _assign(self, table: str, names: list[str], codes: list[Code]) -> None:
        for name, code in zip(names, codes, strict=True):
            self.nulls.assign(table, name, code)
        targets = ", ".join(f"V_{table}_{name}" for name in names)
        self.writer.line(f"{targets} = {', '.join(code.text for code in codes)}")

    def _update(self, statement: Update) -> None:
        scan, names = statement.scan, [name for name, _ in statement.values]
        table = self.definition.table(scan.table)
        expressions = [value for _, value in statement.values]
        whole = [*expressions, *([] if statement.where is None else [statement.where])]
        self._prepare(whole, frozenset({scan.number}))
        if table.single:
            self._enter(scan)
            with self._if_true(statement.where):
                self._prepare(whole, frozenset())
                self._assign(table.name, names, [self.coder.value(value) for value in expressions])
            return
        later = self._reads(iter(whole), (), table.name)
        if later:
            self.writer.line(f"later{scan.number} = []")
        with self._rows(scan, statement.where) as rest, self._if_true(rest):
            self._prepare(expressions, frozenset())
            values = dict(zip(names, (self.coder.value(value) for value in expressions), strict=True))
            for name, code in values.items():
                self.nulls.assign(table.name, name, code)
            if not later and self._in_no_index(table.name, names):
                row, before = f"r{scan.number}", f"B_{table.name}"
                self.changed.add(table.name)
                self.writer.line(f"if n{scan.number} not in {before}: {before}[n{scan.number}] = tuple({row})")
                places = {name: at for at, (name, _) in enumerate(table.columns)}
                targets = ", ".join(f"r{scan.number}[{places[name]}]" for name in values)
                self.writer.line(f"{targets} = {', '.join(code.text for code in values.values())}")
                return
            listed = [
                values[name].text if name in values else f"r{scan.number}[{at}]"
                for at, (name, _) in enumerate(table.columns)
            ]
            arguments = f"n{scan.number}, [{', '.join(listed)}]"
            self.writer.line(
                f"later{scan.number}.append(({arguments}))" if later else f"T_{table.name}.update({arguments})"
            )
        if later:
            with self.writer.block(f"for gone, row in later{scan.number}:"):
                self.writer.line(f"T_{table.name}.update(gone, row)")

    def _in_no_index(self, table: str, names: list[str]) -> bool:
        """Whether columns are certainly in no index of a table, so that rows can be changed in place."""
        places = {at for at, (name, _) in enumerate(self.definition.table(table).columns) if name in names}
        return self.indexes_known and not any(places & set(index) for index in self.indexes[table])

    def _delete(self, statement: Delete) -> None:
        scan, where = statement.scan, statement.where
        parts = [] if where is None else [where]
        self._prepare(parts, frozenset({scan.number}))
        self.writer.line(f"later{scan.number} = []")
        with self._rows(scan, where) as rest:
            if statement.older:
                self.writer.line(f"if n{scan.number} == arrived: continue")
            with self._if_true(rest):
                self.writer.line(f"later{scan.number}.append(n{scan.number})")
        with self.writer.block(f"for gone in later{scan.number}:"):
            self.writer.line(f"T_{scan.table}.delete(gone)")

    # --- queries

    def query(self, query: Query, sink: Sink) -> None:
        """Writes code that passes each row of a query to the sink."""
        if query.order or query.limit is not None:
            made = self._collected(query)
            with self.writer.block(f"for row in {made}:"):
                sink([Code(f"row[{at}]", True) for at in range(len(query.outputs))])
        elif query.keys is not None:
            self._grouped(query, query.outputs, sink)
        else:
            self._ungrouped(query, query.outputs, sink)

    def _collected(self, query: Query) -> str:
        """Writes code that collects the rows of a query, in its order, in a list; returns the name of the list."""
        listed = f"l{next(self.coder.fresh)}"
        self.writer.line(f"{listed} = []")
        outputs = (*query.outputs, *(item.value for item in query.order))
        plain = replace(query, outputs=outputs, order=(), limit=None)
        self.query(
            plain, lambda codes: self.writer.line(f"{listed}.append(({''.join(f'{code.text}, ' for code in codes)}))")
        )
        for at, item in reversed(list(enumerate(query.order, len(query.outputs)))):
            # NULL sorts as a flag before the value
            last = item.nulls_last != item.descending
            key = (
                f"lambda row: (row[{at}] is None, row[{at}])"
                if last
                else f"lambda row: (row[{at}] is not None, row[{at}])"
            )
            guarded = key.replace(f", row[{at}])", f", 0 if row[{at}] is None else row[{at}])")
            self.writer.line(f"{listed}.sort(key={guarded}, reverse={item.descending})")
        if query.limit is not None:
            self.writer.line(f"{listed} = {listed}[:{query.limit}]")
        return listed

    def _ungrouped(self, query: Query, outputs: tuple[Expression, ...], sink: Sink) -> None:
        every = list(query_expressions(query))
        self._prepare(every, frozenset(scan.number for scan in query.scans))
        with self._nest(query.scans, conjuncts(query.where)):
            self._prepare(list(outputs), frozenset())
            sink([self.coder.value(output) for output in outputs])

    def _grouped(self, query: Query, outputs: tuple[Expression, ...], sink: Sink) -> None:
        every = list(query_expressions(query))
        self._prepare(every, frozenset(scan.number for scan in query.scans))
        groups, keys = f"g{next(self.coder.fresh)}", query.keys or ()
        start = ", ".join(part for fold in query.folds for part in _start(fold))
        self.writer.line(f"{groups} = {{}}" if keys else f"{groups} = {{(): [{start}]}}")
        with self._nest(query.scans, conjuncts(query.where)):
            parts = [value for _, value in keys] + [value for fold in query.folds for value in fold.arguments]
            self._prepare(parts, frozenset())
            key = "".join(f"{self.coder.value(value).text}, " for _, value in keys)
            self.writer.line(f"group = {groups}.get(({key}))")
            with self.writer.block("if group is None:"):
                self.writer.line(f"group = {groups}[({key})] = [{start}]")
            at = 0
            for fold in query.folds:
                self._accumulate(fold, at)
                at += len(_start(fold))
        with self.writer.block(f"for key, group in {groups}.items():"):
            for number, (name, _) in enumerate(keys):
                self.names[name] = Code(f"key[{number}]", True)
            at = 0
            for fold in query.folds:
                self.names[fold.name] = self._result(fold, at)
                at += len(_start(fold))
            having = [] if query.having is None else [query.having]
            with self._several(query.folds):
                self._prepare([*having, *outputs], frozenset())
                with self._if_true(query.having):
                    sink([self.coder.value(output) for output in outputs])

    @contextmanager
    def _several(self, folds: tuple[Fold, ...]) -> Iterator[None]:
        """Writes a loop over the returned rows if one of the folds is a definition that may return several rows."""
        several = next((f for f in folds if isinstance(f.function, Definition) and f.function.returns_many), None)
        if several is None:
            yield
            return
        name = f"v{next(self.coder.fresh)}"
        with self.writer.block(f"for {name} in {self.names[several.name].text}:"):
            self.names[several.name] = Code(name, True)
            yield

    def _accumulate(self, fold: Fold, at: int) -> None:
        codes = [self.coder.value(argument) for argument in fold.arguments]
        if isinstance(fold.function, Definition):
            self.writer.line(f"group[{at}].append(({''.join(f'{code.text}, ' for code in codes)}))")
            return
        if not codes:
            self.writer.line(f"group[{at}] += 1")
            return
        self.writer.line(f"value = {codes[0].text}")
        with self.writer.block("if value is not None:" if codes[0].nullable else "if True:"):
            match fold.function:
                case "count":
                    self.writer.line(f"group[{at}] += 1")
                case "sum" | "avg":
                    self.writer.line(f"group[{at}] += value")
                    self.writer.line(f"group[{at + 1}] += 1")
                case "min" | "max":
                    sign = "<" if fold.function == "min" else ">"
                    self.writer.line(f"if group[{at}] is None or value {sign} group[{at}]: group[{at}] = value")

    def _result(self, fold: Fold, at: int) -> Code:
        if isinstance(fold.function, Definition):
            name = f"inner{len(self.inner)}"
            known = next((known for known, inner in self.inner.items() if inner == fold.function), name)
            self.inner[known] = fold.function
            return Code(f"{known}(group[{at}])", True)
        match fold.function:
            case "count":
                return Code(f"group[{at}]", False)
            case "sum":
                return Code(f"(group[{at}] if group[{at + 1}] else None)", True)
            case "avg":
                return Code(f"(group[{at}] / group[{at + 1}] if group[{at + 1}] else None)", True)
        return Code(f"group[{at}]", True)

    # --- loops over rows

    @contextmanager
    def _nest(self, scans: tuple[Scan, ...], tests: list[Expression]) -> Iterator[None]:
        """Writes loops over the combinations of rows for which all tests are TRUE."""
        if not scans:
            self._prepare(tests, frozenset())
            with self._if_true(all_of(tests)):
                yield
            return
        scan, *others = scans
        waiting = {f"r{other.number}:" for other in others}
        now = [test for test in tests if not self._mentions(test, waiting)]
        later = [test for test in tests if test not in now]
        if self.definition.table(scan.table).single and not scan.oldest:
            self._enter(scan)
            self._prepare(now, frozenset())
            with self._if_true(all_of(now)), self._nest(tuple(others), later):
                yield
            return
        with self._rows(scan, all_of(now)) as rest, self._if_true(rest), self._nest(tuple(others), later):
            yield

    @contextmanager
    def _rows(self, scan: Scan, where: Expression | None) -> Iterator[Expression | None]:
        """Writes a loop over the rows of a scan, found by an index if possible; yields the condition left to test."""
        own = {f"r{scan.number}:"}
        tests = conjuncts(where)
        before = [test for test in tests if not self._mentions(test, own)]
        with self._if_true(all_of(before)), self._loop(scan, [test for test in tests if test not in before]) as rest:
            yield rest

    @contextmanager
    def _loop(self, scan: Scan, tests: list[Expression]) -> Iterator[Expression | None]:
        number, table = scan.number, f"T_{scan.table}"
        keys, rest = self._by_index(scan, tests)
        if scan.oldest:
            rows = f"{table}.oldest()"
        elif keys:
            places = tuple(sorted(keys))
            rows = self._matching(scan.table, places, [keys[place] for place in places])
        else:
            rows = f"{table}.items()"
        with self.writer.block(f"for n{number}, r{number} in {rows}:"):
            self._step()
            self._enter(scan)
            self._prepare(rest, frozenset())
            self._inside += 1
            yield all_of(rest)
            self._inside -= 1

    def _matching(self, table: str, places: tuple[int, ...], keys: list[Code]) -> str:
        """The code of a lookup of rows by keys in an index. The result of a lookup before the statement's first loop is
        stored in a variable for the rest of the statement and, if the lookup is in a condition, for the first statement
        after it."""
        index, key = self._index(table, places), "".join(f"{code.text}, " for code in keys)
        if (known := self._found.get((table, index, key))) is not None:
            return known
        self.searched.add((table, index))
        found = f"F_{table}_{index}(({key}), ())"
        found = f"({found} if {guard} else ())" if (guard := present(keys)) else found
        if self.writer.depth > self._level or not all(_LASTING.fullmatch(code.text) for code in keys):
            return found
        name = f"f{next(self.coder.fresh)}"
        self.writer.line(f"{name} = {found}")
        self._found[table, index, key] = name
        return name

    def _index(self, table: str, places: tuple[int, ...]) -> int:
        known = self.indexes[table]
        if places not in known:
            known.append(places)
        return known.index(places)

    def _by_index(self, scan: Scan, tests: list[Expression]) -> tuple[dict[int, Code], list[Expression]]:
        """Splits tests into those that an index can answer, as code of values by column number, and the others."""
        keys: dict[int, Code] = {}
        rest: list[Expression] = []
        names = [name for name, _ in self.definition.table(scan.table).columns]
        for test in tests:
            sides = equal_sides(test, f"r{scan.number}:")
            if sides is None or not self._finds(scan, test):
                rest.append(test)
                continue
            self._prepare([sides[1]], frozenset())
            code, place = self.coder.value(sides[1]), names.index(sides[0])
            if place in keys or not code.simple:
                name = f"k{next(self.coder.fresh)}"
                self.writer.line(f"{name} = {code.text}")
                code = Code(name, code.nullable)
            if place in keys:
                rest.append(test)
            else:
                keys[place] = code
        return keys, rest

    def _enter(self, scan: Scan) -> None:
        """Names the columns of the current row of a scan."""
        table = self.definition.table(scan.table)
        for at, (name, _) in enumerate(table.columns):
            text = f"V_{table.name}_{name}" if table.single else f"r{scan.number}[{at}]"
            self.names[f"r{scan.number}:{name}"] = Code(text, (table.name, name) in self.nulls.columns)

    @contextmanager
    def _if_true(self, condition: Expression | None) -> Iterator[None]:
        if condition is None:
            yield
            return
        with self.writer.block(f"if {self.coder.truth(condition)}:"):
            yield

    # --- subqueries

    def _prepare(self, expressions: list[Expression], inside: frozenset[int]) -> None:
        """Writes code for the subqueries of expressions, except those that read rows of the scans `inside`, which are
        not open yet."""
        waiting = {f"r{number}:" for number in inside}
        names = dict.fromkeys(name for expression in expressions for name in sorted(columns(expression)))
        for name in names:
            subquery = self._subqueries.get(name)
            if subquery is None or any(self._mentions(part, waiting) for part in query_expressions(subquery.query)):
                continue
            if name in self.names and not inside and not self._varies(subquery):
                continue
            self._subquery(subquery)

    def _varies(self, subquery: Subquery) -> bool:
        """Whether a subquery reads rows of enclosing scans, so that one evaluation in a statement is not enough."""
        own = {scan.number for scan in subquery.query.scans}
        for inner in subqueries_of(query_expressions(subquery.query), self.definition):
            own |= {scan.number for scan in inner.query.scans}
        parts = [name for part in query_expressions(subquery.query) for name in columns(part)]
        return any(name.startswith("r") and ":" in name and int(name[1:].split(":")[0]) not in own for name in parts)

    def _subquery(self, subquery: Subquery) -> None:
        if (code := self._of_one_row(subquery) or self._of_one_key(subquery)) is not None:
            self.names[subquery.name] = code
            return
        name = f"{subquery.name}"
        self.writer.line(f"{name} = {'False' if subquery.exists else 'None'}")
        found, begun = f"{name}_found", len(self.writer.lines)
        first = False

        def sink(codes: list[Code]) -> None:
            nonlocal first
            alone = bool(self._inside) and subquery.query.keys is None
            if subquery.exists:
                self.writer.line(f"{name} = True")
            elif alone and self._inside == 1:
                self.writer.line(f"{name} = {codes[0].text}")
            else:
                first = True
                with self.writer.block(f"if not {found}:"):
                    self.writer.line(f"{found} = True")
                    self.writer.line(f"{name} = {codes[0].text}")
            if alone:
                self.writer.line("break")

        outside, self._inside = self._inside, 0
        self.query(subquery.query, sink)
        self._inside = outside
        if first:
            self.writer.insert(begun, self.writer.depth, f"{found} = False")
        one = subquery.query.keys == () and not subquery.query.limit and subquery.query.having is None
        count = one and len(subquery.query.folds) == 1 and subquery.query.folds[0].function == "count"
        self.names[subquery.name] = Code(name, not (subquery.exists or count))

    def _of_one_row(self, subquery: Subquery) -> Code | None:
        """The code of a subquery that only reads a column of a single-row table which the statement does not change;
        None for other subqueries."""
        query = subquery.query
        if subquery.exists or query.keys is not None or query.where is not None or query.order or query.folds:
            return None
        if query.limit is not None or len(query.scans) != 1 or not isinstance(query.outputs[0], Column):
            return None
        (scan,) = query.scans
        if scan.oldest or scan.table == self._target or not self.definition.table(scan.table).single:
            return None
        self._enter(scan)
        return self.coder.value(query.outputs[0])

    def _of_one_key(self, subquery: Subquery) -> Code | None:
        """The code of an EXISTS that one lookup in an index answers; None for other subqueries."""
        query, tests = subquery.query, conjuncts(subquery.query.where)
        if not subquery.exists or query.keys is not None or query.limit is not None or len(query.scans) != 1:
            return None
        (scan,) = query.scans
        simple = all(isinstance(part, Column | Literal) for part in query.outputs)
        if len(tests) != 1 or not simple or self.definition.table(scan.table).single or not self._finds(scan, tests[0]):
            return None
        ((place, key),) = self._by_index(scan, tests)[0].items()
        self.writer.line(f"{subquery.name} = bool({self._matching(scan.table, (place,), [key])})")
        return Code(subquery.name, False)

    def _finds(self, scan: Scan, test: Expression) -> bool:
        """Whether an index can find the rows of a scan that satisfy a test."""
        sides = equal_sides(test, f"r{scan.number}:")
        own = {f"r{scan.number}:"}
        return sides is not None and not (scan.table == WINDOW_TABLE or scan.oldest or self._mentions(sides[1], own))

    def _reads(self, expressions: Iterator[Expression], scans: tuple[Scan, ...], table: str) -> bool:
        """Whether a table is read by the scans or by subqueries of the expressions."""
        below = [scan for subquery in subqueries_of(expressions, self.definition) for scan in subquery.query.scans]
        return any(scan.table == table for scan in (*scans, *below))

    def _mentions(self, expression: Expression, prefixes: set[str]) -> bool:
        """Whether an expression, or a subquery in it, reads rows of the scans with these prefixes."""
        if not prefixes:
            return False
        parts = [expression]
        for subquery in subqueries_of(iter([expression]), self.definition):
            parts += list(query_expressions(subquery.query))
        return any(name.startswith(prefix) for part in parts for name in columns(part) for prefix in prefixes)


def _written(statement: Insert | Update | Delete) -> str:
    """The table that a statement changes."""
    return statement.table if isinstance(statement, Insert) else statement.scan.table


def _start(fold: Fold) -> list[str]:
    """The code of the accumulators of an aggregate over no rows."""
    if isinstance(fold.function, Definition):
        return ["[]"]
    zero = "0.0" if str(fold.type) == "double" and fold.function == "avg" else "0"
    return {"count": ["0"], "sum": ["0", "0"], "avg": [zero, "0"], "min": ["None"], "max": ["None"]}[fold.function]
