"""A kind of statement: how it is written, what it does, and who may run it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.roles import Role
from dsms.registration.environment import Applied, Environment
from dsms.sql.parser.parse import Starts

#: What a statement is about: the objects of the catalog, rows of tables and views, or what runs at present.
Subject = Literal["catalog", "rows", "runtime"]


@dataclass(frozen=True, kw_only=True)
class StatementKind:
    """Everything that the parser, the coordinator, a session, the check of roles and the SQL shell derive from.

    A statement about the catalog is complete with `apply`. The others, without it, are run by those who hold the rows
    or the measurements.
    """

    #: The class of the parsed statements.
    statement: type[st.Statement]
    #: The words that begin the statement, with the function that parses what follows them. It is empty where the
    #: function of another kind also parses this one: that of SHOW parses SHOW EXECUTORS.
    starts: Starts = field(default_factory=dict)
    #: The catalog after the statement, and its result.
    apply: Callable[[Any, Catalog, Environment], Applied] | None = None
    #: The least role that may run it. What a reader may run changes nothing.
    role: Role = "writer"
    subject: Subject = "catalog"
    #: The name that it gives, changes or takes away, which must not be one of the system's; by default there is none.
    changed_name: Callable[[Any], st.Name | None] = lambda _: None
    #: The name of the object that it shows or whose rows it writes. What a query reads, its binding tells.
    read_name: Callable[[Any], st.Name | None] = lambda _: None
    #: Whether it brings code in Python, which executors run: a coordinator has to be started with leave for it.
    deploys_code: bool = False
    #: Words after its beginning that the SQL shell completes.
    words: tuple[str, ...] = ()

    @property
    def reads_only(self) -> bool:
        """Whether it changes nothing, so that it can be repeated without effect."""
        return self.role == "reader"


def named(statement: Any) -> st.Name | None:
    """The `changed_name` or `read_name` of statements about the object of their name."""
    name: st.Name | None = statement.name
    return name


def written(statement: Any) -> st.Name | None:
    """The `read_name` of statements that write the rows of their table: the table stays as it is."""
    name: st.Name | None = statement.table
    return name
