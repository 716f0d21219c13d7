"""Who may do what: API tokens and their roles. The token file holds only hashes, so reading it gives no access."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from dsms.model.roles import Role
from operators.core.errors import ConfigError, UserError

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


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
