"""The description of a kind of statement: its syntax, its effect, and the role needed to run it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.objects import Query
from dsms.model.roles import Role
from dsms.model.statement_result import StatementResult
from dsms.registration.environment import Applied, Environment
from dsms.sql.parser.parse import Starts
from dsms.statements.context import Context


@dataclass(frozen=True)
class Halt:
    """The queries that must publish nothing more before a statement takes effect. `moves`: they leave their fragments,
    so these fragments must run without them."""

    queries: tuple[Query, ...] = ()
    moves: bool = False


@dataclass(frozen=True, kw_only=True)
class StatementKind:
    """All facts about a kind of statement, for the parser, the coordinator, a session, the role check and the SQL
    shell.

    A statement takes effect by `apply`, a pure change of the catalog, or by `answer`, which uses the abilities of the
    system that runs it. A kind with both changes the catalog inside its `answer`, by `context.apply`.
    """

    #: The class of the parsed statements.
    statement: type[st.Statement]
    #: The words that begin the statement, with the function that parses the rest. Empty if the parser of another kind
    #: also parses this one: for example, that of SHOW parses SHOW EXECUTORS.
    starts: Starts = field(default_factory=dict)
    #: Returns the statements that are run for a parsed one, in order.
    parts: Callable[[Any], tuple[st.Statement, ...]] = lambda statement: (statement,)
    #: Returns the statement as it is to be run with a catalog: most statements mean the same with every catalog.
    resolve: Callable[[Any, Catalog], st.Statement] = lambda statement, _: statement
    #: Returns the catalog after the statement, and its result.
    apply: Callable[[Any, Catalog, Environment], Applied] | None = None
    #: Runs the statement and returns its result. If it raises, it has done nothing, or everything that is to be kept.
    answer: Callable[[Any, Context], StatementResult] | None = None
    #: Returns the queries to halt before `apply`. None: it never halts any.
    halts: Callable[[Any, Catalog], Halt] | None = None
    #: The least role that may run it. Statements that a reader may run change nothing.
    role: Role = "writer"
    #: Whether it writes records, so that running it twice may write them twice although the catalog stays the same.
    writes_records: bool = False
    #: Returns the names of the objects that it creates, changes or drops. They must not be names of the system.
    changed_names: Callable[[Any], tuple[st.Name, ...]] = lambda _: ()
    #: Returns the name of the object that it shows or whose rows it writes, if any. The objects that a query reads are
    #: determined by binding it.
    read_name: Callable[[Any], st.Name | None] = lambda _: None
    #: Returns the names, in lower case, that the declaration of an object reads. None: it declares no object.
    declaration_reads: Callable[[Any], list[str] | None] = lambda _: None
    #: Whether it deploys Python code, which executors run: the coordinator must have been started with permission.
    deploys_code: bool = False
    #: Words after its beginning that the SQL shell completes.
    words: tuple[str, ...] = ()

    @property
    def reads_only(self) -> bool:
        """Whether it changes nothing, so that it can be repeated safely."""
        return self.role == "reader"


def named(statement: Any) -> st.Name | None:
    """The `read_name` of statements about the object that their `name` denotes."""
    name: st.Name | None = statement.name
    return name


def changes_named(statement: Any) -> tuple[st.Name, ...]:
    """The `changed_names` of statements that create, change or drop the object that their `name` denotes. The name of a
    new query may be missing."""
    return () if statement.name is None else (statement.name,)


def written_table(statement: Any) -> st.Name | None:
    """The `read_name` of statements that write rows of their `table`: the table as an object of the catalog does not
    change."""
    name: st.Name | None = statement.table
    return name
