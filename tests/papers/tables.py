"""Streams and relations written as the papers write them: `+<a,105>2`, `1:⟨c⟩ 2:⟨a3,b⟩`, `c[1,8) a[5,11)`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from dsms.testing import LocalSession

#: (partitions, records of a batch): neither changes a result.
CUTS = [(1, None), (1, 1), (3, None), (3, 1)]
#: For tests with many cases.
FEW_CUTS = [(1, None), (3, 1)]

#: The rows of a relation at each instant: the text of a row, and its multiplicity.
Relations = dict[int, Counter[str]]


def push(session: LocalSession, source: str, elements: str) -> None:
    """Appends elements as SyncSQL writes them: `<a, 78>1, u<a, 105>2`, of a source with the columns in that order."""
    schema = session.catalog.find(source).schema
    for op, values, ts in re.findall(r"([+u-]?)<([^>]*)>(\d+)", elements):
        texts = [value.strip() for value in values.split(",")]
        typed = [text if str(field.type) == "string" else int(text) for text, field in zip(texts, schema, strict=False)]
        record = dict(zip(schema.names, typed, strict=False)) | {"ts": int(ts)}
        session.push(source, [record | {"op": op} if op else record])


def changes(session: LocalSession, name: str) -> list[str]:
    """The published changes of a view or query, by instant: `+<a,105>2`.

    A row that leaves and returns at one instant is left out.
    """
    net: Counter[tuple[int, str]] = Counter()
    updates = []
    for op, row, ts in session.changes(name):
        if op == "u":
            updates.append((ts, f"u{_tuple(row)}"))
        else:
            net[ts, _tuple(row)] += 1 if op == "+" else -1
    entered = [(ts, f"{'+' if n > 0 else '-'}{row}") for (ts, row), n in net.items() for _ in range(abs(n))]
    return [f"{text}{ts}" for ts, text in sorted(entered + updates)]


def listed(elements: str) -> list[str]:
    """Elements as the papers list them, in the order of `changes`.

    >>> listed("+<b, 3>4, -<a>4, +<a, 1>2")
    ['+<a,1>2', '+<b,3>4', '-<a>4']
    """
    pairs = re.findall(r"([+u-]<[^>]*>)(\d+)", elements.replace(", ", ","))
    return [f"{text}{ts}" for ts, text in sorted((int(ts), text) for text, ts in pairs)]


def relations(session: LocalSession, name: str, until: int) -> str:
    """The relations of a view or query at the instants before `until`, one line each."""
    return written({at: Counter(map(_text, session.relation(name, at=at))) for at in range(until)})


def snapshots(text: str, until: int) -> str:
    """PIPES' logical streams, `1:⟨c⟩ 2-3:⟨a3,b⟩ 6..∞:⟨a⟩`: letters with multiplicities, in the notation of `relations`.

    >>> snapshots("1:⟨c⟩ 3..∞:⟨a3,b⟩", 5)
    '1: c\\n3: a a a b\\n4: a a a b'
    """
    relations: Relations = {}
    for first, last, rows in re.findall(r"(\d+)(?:(?:-|\.\.)(\d+|∞))?:⟨([^⟩]*)⟩", text):
        end = until if last == "∞" else int(last or first) + 1
        relations |= {at: _counted(rows) for at in range(int(first), end)}
    return written(relations)


def intervals(text: str, until: int) -> str:
    """PIPES' physical streams, `c[1,8) a[5,∞)`, as the relations that they represent, in the notation of `relations`.

    >>> intervals("c[1,3) a[2,4)", 9)
    '1: c\\n2: a c\\n3: a'
    """
    relations: Relations = {}
    for row, start, end in elements(text):
        for at in range(start, until if end is None else end):
            relations.setdefault(at, Counter())[row] += 1
    return written(relations)


def elements(text: str) -> list[tuple[str, int, int | None]]:
    """Rows with their intervals; the end None means for ever."""
    triples = re.findall(r"(\S+)\[(\d+),(\d+|∞)\)", text)
    return [(row, int(start), None if end == "∞" else int(end)) for row, start, end in triples]


def written(relations: Mapping[int, Iterable[str]]) -> str:
    """Relations as text, without the instants at which they are empty.

    >>> written({2: ["b", "a"], 1: []})
    '2: a b'
    """
    rows = {at: sorted(bag.elements() if isinstance(bag, Counter) else bag) for at, bag in relations.items()}
    return "\n".join(f"{at}: {' '.join(rows[at])}" for at in sorted(rows) if rows[at])


def _counted(rows: str) -> Counter[str]:
    """`a3,b`: three a and one b."""
    parts = [re.fullmatch(r"(.*?)(\d*)", row) for row in rows.split(",") if row]
    return Counter({part[1]: int(part[2] or 1) for part in parts if part})


def _tuple(row: Mapping[str, object]) -> str:
    return f"<{','.join(map(_value, row.values()))}>"


def _text(row: Mapping[str, object]) -> str:
    values: Sequence[str] = [_value(value) for value in row.values()]
    return values[0] if len(values) == 1 else f"({','.join(values)})"


def _value(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
