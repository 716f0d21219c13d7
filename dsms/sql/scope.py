"""The columns that a row expression can name."""

import difflib
from dataclasses import dataclass

import pyarrow as pa

from operators.errors import InternalError, UserError
from operators.expressions import Column


@dataclass(frozen=True, slots=True)
class Entry:
    """A column as the user names it (`alias.name`) and as the frame holds it."""

    alias: str | None
    name: str
    column: Column

    @property
    def spelling(self) -> str:
        return self.name if self.alias is None else f"{self.alias}.{self.name}"


class NotFound(UserError):
    """No column of that name."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Resolves names without regard to case; `fields` are the columns of the frame, `entries` what they are called.

    >>> scope = Scope(pa.schema([("bidder", pa.int64())]), "B")
    >>> scope.resolve("BIDDER").name, scope.resolve("bidder", "b").name
    ('bidder', 'bidder')
    >>> scope.resolve("biddr")
    Traceback (most recent call last):
    dsms.sql.scope.NotFound: column "biddr" not found; have: B.bidder
    """

    fields: pa.Schema
    alias: str | None = None
    entries: tuple[Entry, ...] = ()

    def __post_init__(self) -> None:
        if not self.entries:
            entries = (Entry(self.alias, f.name, Column(f.name, f.type, f.nullable)) for f in self.fields)
            object.__setattr__(self, "entries", tuple(entries))

    def resolve(self, name: str, alias: str | None = None) -> Column:
        """Returns the column; an unknown or ambiguous name is an error that lists the choices, close matches first."""
        found = self.find(name, alias)
        if found is not None:
            return found
        asked = name if alias is None else f"{alias}.{name}"
        raise NotFound(f'column "{asked}" not found', hint=f"have: {self._choices(asked)}")

    def find(self, name: str, alias: str | None = None) -> Column | None:
        """As `resolve`, but returns None for an unknown name."""
        matches = [
            entry
            for entry in self.entries
            if _same(entry.name, name) and (alias is None or _same(entry.alias or "", alias))
        ]
        exact = [entry for entry in matches if entry.name == name]
        matches = exact if len(matches) > 1 and exact else matches
        if len(matches) > 1:
            spellings = ", ".join(entry.spelling for entry in matches)
            raise UserError(f'column "{name}" is ambiguous', hint=f"say one of: {spellings}")
        return matches[0].column if matches else None

    def _choices(self, asked: str) -> str:
        spellings = [entry.spelling for entry in self.entries]
        folded = {entry.name.casefold(): entry.spelling for entry in self.entries}
        last = asked.rpartition(".")[2].casefold()
        close = [folded[name] for name in difflib.get_close_matches(last, folded, n=3)]
        return ", ".join([*close, *(spelling for spelling in spellings if spelling not in close)])


def join_scopes(left: Scope, right: Scope) -> Scope:
    """Returns the scope over the columns of both; a name of the right that is taken is held as `alias.name`.

    >>> fields = pa.schema([("id", pa.int64())])
    >>> both = join_scopes(Scope(fields, "a"), Scope(fields, "b"))
    >>> both.fields.names, both.resolve("id", "b").name
    (['id', 'b.id'], 'b.id')
    """
    taken = {field.name.casefold() for field in left.fields}
    fields, entries = list(left.fields), list(left.entries)
    renamed: dict[str, str] = {}
    for field in right.fields:
        name = field.name
        if name.casefold() in taken:
            name = f"{right.alias}.{name}"
        while name.casefold() in taken:
            name += "'"
        taken.add(name.casefold())
        renamed[field.name] = name
        fields.append(field.with_name(name))
    for entry in right.entries:
        if entry.column.name not in renamed:
            raise InternalError(f'entry "{entry.spelling}" names no field')
        column = Column(renamed[entry.column.name], entry.column.type, entry.column.nullable)
        entries.append(Entry(entry.alias, entry.name, column))
    return Scope(pa.schema(fields), None, tuple(entries))


def _same(left: str, right: str) -> bool:
    return left.casefold() == right.casefold()
