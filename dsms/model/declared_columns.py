"""The columns that sources and tables declare, and what is promised about them."""

from __future__ import annotations

from typing import Literal

import msgspec


class Column(msgspec.Struct, frozen=True):
    """A column by name, SQL type and nullability."""

    name: str
    type: str
    nullable: bool = True


class Constraint(msgspec.Struct, frozen=True):
    """A promise about the records of a source.

    "ordered": within each partition, a value of `column` is at most `k` below the greatest value before it. `k` is in
    ms for times, otherwise in the unit of the column. If it is None, nothing is promised, but the largest such
    difference is measured. "clustered": records with the same value are at most `k` instants apart. "references": each
    record references a record of the source `other`, which is at most `k` instants earlier and has the same value in
    its column `theirs`.
    """

    column: str
    k: int | None
    kind: Literal["ordered", "clustered", "references"] = "ordered"
    other: str | None = None
    theirs: str | None = None

    @property
    def sql(self) -> str:
        """The constraint as SQL text."""
        bound = "" if self.k is None else f" WITHIN {self.k}"
        if self.kind == "references":
            return f"{self.column} REFERENCES {self.other} ({self.theirs}){bound}"
        return f"{self.kind.upper()} BY {self.column}{bound}"
