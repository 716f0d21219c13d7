"""The description of a kind of statement: its syntax, its effect, and the role needed to run it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.roles import Role
from dsms.registration.environment import Applied, Environment
from dsms.sql.parser.parse import Starts

#: The subject of a statement: the objects of the catalog, rows of tables and views, or the running system.
Subject = Literal["catalog", "rows", "runtime"]


@dataclass(frozen=True, kw_only=True)
class StatementKind:
    """All facts about a kind of statement, for the parser, the coordinator, a session, the role check and the SQL
    shell.

    Statements about the catalog are run by `apply`. Other kinds have no `apply`; they are run by the component that has
    the rows or the measurements.
    """

    #: The class of the parsed statements.
    statement: type[st.Statement]
    #: The words that begin the statement, with the function that parses the rest. Empty if the parser of another kind
    #: also parses this one: for example, that of SHOW parses SHOW EXECUTORS.
    starts: Starts = field(default_factory=dict)
    #: Returns the catalog after the statement, and its result.
    apply: Callable[[Any, Catalog, Environment], Applied] | None = None
    #: The least role that may run it. Statements that a reader may run change nothing.
    role: Role = "writer"
    subject: Subject = "catalog"
    #: Returns the name of the object that it creates, changes or drops, if any. It must not be a name of the system.
    changed_name: Callable[[Any], st.Name | None] = lambda _: None
    #: Returns the name of the object that it shows or whose rows it writes, if any. The objects that a query reads are
    #: determined by binding it.
    read_name: Callable[[Any], st.Name | None] = lambda _: None
    #: Whether it deploys Python code, which executors run: the coordinator must have been started with permission.
    deploys_code: bool = False
    #: Words after its beginning that the SQL shell completes.
    words: tuple[str, ...] = ()

    @property
    def reads_only(self) -> bool:
        """Whether it changes nothing, so that it can be repeated safely."""
        return self.role == "reader"


def named(statement: Any) -> st.Name | None:
    """The `changed_name` or `read_name` of statements about the object that their `name` denotes."""
    name: st.Name | None = statement.name
    return name


def written(statement: Any) -> st.Name | None:
    """The `read_name` of statements that write rows of their `table`: the table as an object of the catalog does not
    change."""
    name: st.Name | None = statement.table
    return name
