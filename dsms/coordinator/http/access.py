"""Who may do what: API tokens and their roles. The token file holds only hashes, so reading it gives no access."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from dsms.model import statements as st
from dsms.sql.parser.parse import parse
from operators.core.errors import ConfigError, UserError

Role = Literal["reader", "writer", "administrator"]
ROLES: tuple[Role, ...] = ("reader", "writer", "administrator")
_PREFIX, _BYTES = "dsms_", 32
#: The attribute of a route's function that holds the role which it declares.
_NEEDED = "needed_role"
_Endpoint = TypeVar("_Endpoint", bound=Callable[..., Any])


class Forbidden(UserError):
    """The token's role does not allow it."""


class Token(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A token as it is kept: its owner, its role and the hash of its text."""

    name: str
    role: Role
    sha256: str


@dataclass(frozen=True)
class Access:
    """The known tokens. A reader sees everything; a writer creates and drops objects and writes rows; an administrator
    may also run what reads with the coordinator's own rights.

    >>> text, known = new_token("ann", "writer")
    >>> Access((known,)).role_of(text), Access((known,)).role_of("else")
    ('writer', None)
    """

    tokens: tuple[Token, ...]

    def role_of(self, text: str) -> Role | None:
        """The role of a token, None for an unknown token. Its duration reveals nothing about known tokens."""
        given = _hash(text)
        roles = [token.role for token in self.tokens if hmac.compare_digest(token.sha256, given)]
        return roles[0] if roles else None


def new_token(name: str, role: Role) -> tuple[str, Token]:
    """The text of a new token, which is told once, and the token as it is kept."""
    text = _PREFIX + secrets.token_urlsafe(_BYTES)
    return text, Token(name, role, _hash(text))


def read_tokens(file: Path) -> Access:
    """The tokens of a TOML file with tables `[[token]]` of name, role and sha256; ConfigError for any other file."""
    try:
        content = tomllib.loads(file.read_text("utf-8"))
        if others := content.keys() - {"token"}:
            raise ConfigError(f'token file "{file}" has more than [[token]]: {", ".join(sorted(others))}')
        return Access(tuple(msgspec.convert(content.get("token", []), list[Token])))
    except OSError as error:
        raise ConfigError(f'token file "{file}" cannot be read: {error.strerror}') from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise ConfigError(
            f'token file "{file}" is wrong: {error}', hint="make a token with: dsms token NAME --role ROLE"
        ) from error


def allows(role: Role, needed: Role) -> bool:
    """Whether a role includes another.

    >>> allows("administrator", "writer"), allows("reader", "writer")
    (True, False)
    """
    return ROLES.index(role) >= ROLES.index(needed)


def check_statements(sql: str, role: Role) -> None:
    """Raises Forbidden for the first statement that needs a higher role, before any statement has run."""
    for number, statement in enumerate(parse(sql), 1):
        needed = needed_for(statement)
        if not allows(role, needed):
            raise Forbidden(f"statement {number} needs the role {needed}, the token has {role}")


def needs(role: Role) -> Callable[[_Endpoint], _Endpoint]:
    """Declares the role that a route needs, where it is not the role of its method: a decorator of its function.

    >>> @needs("administrator")
    ... def reset() -> None: ...
    >>> needed_for_call("DELETE", reset), needed_for_call("DELETE", None)
    ('administrator', 'writer')
    """

    def declare(endpoint: _Endpoint) -> _Endpoint:
        setattr(endpoint, _NEEDED, role)
        return endpoint

    return declare


def declared_role(endpoint: object) -> Role | None:
    """The role that the function of a route declares, if it does."""
    role: Role | None = getattr(endpoint, _NEEDED, None)
    return role


def needed_for_call(method: str, endpoint: object) -> Role:
    """The role that a call needs: the one that the function of its route declares, otherwise that of the method. What
    a script needs, `check_statements` says."""
    return declared_role(endpoint) or ("reader" if method in ("GET", "HEAD", "OPTIONS") else "writer")


@singledispatch
def needed_for(statement: st.Statement) -> Role:
    """The role that a statement needs."""
    return "writer"


@needed_for.register(st.Select)
@needed_for.register(st.Show)
@needed_for.register(st.Describe)
@needed_for.register(st.Explain)
@needed_for.register(st.ShowEntities)
@needed_for.register(st.ShowExecutors)
@needed_for.register(st.ExplainAnalyze)
def _(statement: st.Statement) -> Role:
    return "reader"


@needed_for.register(st.LoadFile)
@needed_for.register(st.LoadDatabase)
@needed_for.register(st.AlterExecutor)
def _(statement: st.Statement) -> Role:
    """Files and databases are read with the rights of the coordinator; executors work for everybody."""
    return "administrator"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
