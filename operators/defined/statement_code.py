"""Python code for the statements of a body: loops over local tables, with a counted budget of steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from operators.defined.definition import (
    INWINDOW,
    RETURN,
    Definition,
    Delete,
    Fold,
    If,
    Insert,
    Place,
    Query,
    Scan,
    Statement,
    Subquery,
    Update,
    While,
    query_expressions,
    subqueries_of,
)
from operators.defined.expression_code import Code, ExpressionCoder
from operators.expressions.tree import Call, Column, Expression, columns

#: Takes the codes of a row of a query and writes what is done with it.
Sink = Callable[[list[Code]], None]


@dataclass
class Writer:
    """Lines of code, each with the place of the statement that it is for."""

    lines: list[str] = field(default_factory=list)
    places: list[Place | None] = field(default_factory=list)
    depth: int = 0
    place: Place | None = None

    def line(self, text: str) -> None:
        """Adds a line."""
        self.lines.append("    " * self.depth + text)
        self.places.append(self.place)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Adds a line, and what is written meanwhile below it."""
        self.line(head)
        self.depth += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.line("pass")
        self.depth -= 1


@dataclass
class Nulls:
    """The columns of local tables that may be NULL; `grown` when a statement has added one."""

    columns: set[tuple[str, str]]
    grown: bool = False

    def assign(self, table: str, column: str, code: Code) -> None:
        """A value is stored in a column."""
        if code.nullable and (table, column) not in self.columns:
            self.columns.add((table, column))
            self.grown = True


class StatementCoder:
    """Writes statements of a definition. `names` has the code of parameters."""

    def __init__(self, definition: Definition, writer: Writer, names: dict[str, Code], nulls: Nulls) -> None:
        self.definition = definition
        self.writer = writer
        self.names = dict(names)
        self.nulls = nulls
        self.coder = ExpressionCoder(self.names)
        self.indexes: dict[str, list[tuple[int, ...]]] = {table.name: [] for table in definition.tables}
        #: Whether these are all indexes that any statement needs.
        self.indexes_known = False
        self.inner: dict[str, Definition] = {}
        self.loops = False
        self._inside = 0
        self._subqueries = {subquery.name: subquery for subquery in definition.subqueries}

    # --- statements

    def statements(self, statements: Iterable[Statement]) -> None:
        """Writes statements one after the other."""
        for statement in statements:
            self.writer.place = statement.place
            for name in self._subqueries:  # their values are those before this statement
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
        with self.writer.block(f"if {self.coder.truth(statement.condition)}:"):
            self.statements(statement.then)
        if statement.otherwise:
            with self.writer.block("else:"):
                self.statements(statement.otherwise)

    def _while(self, statement: While) -> None:
        with self.writer.block("while True:"):
            self._step()
            self._prepare([statement.condition], frozenset())
            self.writer.line(f"if not {self.coder.truth(statement.condition)}: break")
            self.statements(statement.body)

    def _step(self) -> None:
        self.loops = True
        self.writer.line("steps -= 1")
        self.writer.line("if steps < 0: raise LimitReached('it takes too many steps')")

    def _insert(self, statement: Insert) -> None:
        if statement.table == RETURN:
            for query in statement.queries:
                self.query(query, self._returned)
            return
        table = self.definition.table(statement.table)
        if table.single:
            (query,) = statement.queries
            self.query(query, lambda codes: self._assign(table.name, [name for name, _ in table.columns], codes))
            return
        for query in statement.queries:
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
                self.writer.line(f"T_{table.name}.touch(n{scan.number}, r{scan.number})")
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
        """Whether columns are in no index of a table, as far as its indexes are all known, so that rows can be changed
        in place."""
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
        """Writes code that gives each row of a query to the sink."""
        if query.order or query.limit is not None:
            made = self._collected(query)
            with self.writer.block(f"for row in {made}:"):
                sink([Code(f"row[{at}]", True) for at in range(len(query.outputs))])
        elif query.keys is not None:
            self._grouped(query, query.outputs, sink)
        else:
            self._ungrouped(query, query.outputs, sink)

    def _collected(self, query: Query) -> str:
        """Writes code that lists the rows of a query, in its order, and returns the name of the list."""
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
        """A loop over what a definition returns that may return several rows."""
        several = next((f for f in folds if isinstance(f.function, Definition) and f.function.several), None)
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
        """Loops over the combinations of rows for which all tests are TRUE."""
        if not scans:
            condition = tests[0] if tests else None
            for test in tests[1:]:
                condition = Call("and", (condition, test), test.type) if condition is not None else test
            self._prepare(tests, frozenset())
            with self._if_true(condition):
                yield
            return
        scan, *others = scans
        waiting = {f"r{other.number}:" for other in others}
        now = [test for test in tests if not self._mentions(test, waiting)]
        later = [test for test in tests if test not in now]
        if self.definition.table(scan.table).single and not scan.oldest:
            self._enter(scan)
            self._prepare(now, frozenset())
            with self._if_true(_all(now)), self._nest(tuple(others), later):
                yield
            return
        with self._rows(scan, _all(now)) as rest, self._if_true(rest), self._nest(tuple(others), later):
            yield

    @contextmanager
    def _rows(self, scan: Scan, where: Expression | None) -> Iterator[Expression | None]:
        """A loop over the rows that an index finds; gives what remains to be tested."""
        own = {f"r{scan.number}:"}
        tests = conjuncts(where)
        before = [test for test in tests if not self._mentions(test, own)]
        with self._if_true(_all(before)), self._loop(scan, [test for test in tests if test not in before]) as rest:
            yield rest

    @contextmanager
    def _loop(self, scan: Scan, tests: list[Expression]) -> Iterator[Expression | None]:
        number, table = scan.number, f"T_{scan.table}"
        keys, rest = self._by_index(scan, tests)
        if scan.oldest:
            rows = f"{table}.oldest()"
        elif keys:
            places = tuple(sorted(keys))
            index = self._index(scan.table, places)
            rows = f"{table}.matching({index}, ({''.join(f'{keys[place].text}, ' for place in places)}))"
            rows = f"({rows} if {guard} else ())" if (guard := _present([keys[place] for place in places])) else rows
        else:
            rows = f"{table}.items()"
        with self.writer.block(f"for n{number}, r{number} in {rows}:"):
            self._step()
            self._enter(scan)
            self._prepare(rest, frozenset())
            self._inside += 1
            yield _all(rest)
            self._inside -= 1

    def _index(self, table: str, places: tuple[int, ...]) -> int:
        known = self.indexes[table]
        if places not in known:
            known.append(places)
        return known.index(places)

    def _by_index(self, scan: Scan, tests: list[Expression]) -> tuple[dict[int, Code], list[Expression]]:
        """The columns that must have known values, with these, and the other tests."""
        keys: dict[int, Code] = {}
        rest: list[Expression] = []
        own = {f"r{scan.number}:"}
        names = [name for name, _ in self.definition.table(scan.table).columns]
        for test in tests:
            sides = _equal_sides(test, f"r{scan.number}:")
            if sides is None or scan.table == INWINDOW or scan.oldest or self._mentions(sides[1], own):
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
        """Computes the subqueries of expressions, but those that read rows of the scans `inside`, which come later."""
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
        """Whether it was computed in this statement already: subqueries that read no enclosing row are."""
        own = {scan.number for scan in subquery.query.scans}
        for inner in subqueries_of(query_expressions(subquery.query), self.definition):
            own |= {scan.number for scan in inner.query.scans}
        parts = [name for part in query_expressions(subquery.query) for name in columns(part)]
        return any(name.startswith("r") and ":" in name and int(name[1:].split(":")[0]) not in own for name in parts)

    def _subquery(self, subquery: Subquery) -> None:
        name = f"{subquery.name}"
        self.writer.line(f"{name} = {'False' if subquery.exists else 'None'}")
        found = f"{name}_found"
        if not subquery.exists:
            self.writer.line(f"{found} = False")

        def sink(codes: list[Code]) -> None:
            if subquery.exists:
                self.writer.line(f"{name} = True")
            else:
                with self.writer.block(f"if not {found}:"):
                    self.writer.line(f"{found} = True")
                    self.writer.line(f"{name} = {codes[0].text}")
            if self._inside and subquery.query.keys is None:
                self.writer.line("break")

        outside, self._inside = self._inside, 0
        self.query(subquery.query, sink)
        self._inside = outside
        one = subquery.query.keys == () and not subquery.query.limit and subquery.query.having is None
        count = one and len(subquery.query.folds) == 1 and subquery.query.folds[0].function == "count"
        self.names[subquery.name] = Code(name, not (subquery.exists or count))

    def _reads(self, expressions: Iterator[Expression], scans: tuple[Scan, ...], table: str) -> bool:
        """Whether a table is read by the scans or by subqueries."""
        below = [scan for subquery in subqueries_of(expressions, self.definition) for scan in subquery.query.scans]
        return any(scan.table == table for scan in (*scans, *below))

    def _mentions(self, expression: Expression, prefixes: set[str]) -> bool:
        """Whether an expression reads rows of scans, also in its subqueries."""
        if not prefixes:
            return False
        parts = [expression]
        for subquery in subqueries_of(iter([expression]), self.definition):
            parts += list(query_expressions(subquery.query))
        return any(name.startswith(prefix) for part in parts for name in columns(part) for prefix in prefixes)


def conjuncts(condition: Expression | None) -> list[Expression]:
    """The parts of a condition that all have to be TRUE."""
    if condition is None:
        return []
    if isinstance(condition, Call) and condition.function == "and":
        return [part for argument in condition.arguments for part in conjuncts(argument)]
    return [condition]


def _all(tests: list[Expression]) -> Expression | None:
    if len(tests) < 2:
        return tests[0] if tests else None
    return Call("and", tuple(tests), tests[0].type)


def _equal_sides(test: Expression, prefix: str) -> tuple[str, Expression] | None:
    """`r3:a = value` as ("a", value), if one side is a column of the scan."""
    if not isinstance(test, Call) or test.function != "equal":
        return None
    left, right = test.arguments
    for one, other in ((left, right), (right, left)):
        bare = one.arguments[0] if isinstance(one, Call) and one.function == "widen" else one
        if isinstance(bare, Column) and bare.name.startswith(prefix):
            return bare.name.removeprefix(prefix), other
    return None


def _present(codes: list[Code]) -> str:
    return " and ".join(f"{code.text} is not None" for code in codes if code.nullable)


def _start(fold: Fold) -> list[str]:
    """The accumulators of an aggregate over no rows."""
    if isinstance(fold.function, Definition):
        return ["[]"]
    zero = "0.0" if str(fold.type) == "double" and fold.function == "avg" else "0"
    return {"count": ["0"], "sum": ["0", "0"], "avg": [zero, "0"], "min": ["None"], "max": ["None"]}[fold.function]
