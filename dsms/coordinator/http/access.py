"""Who may do what: API tokens and their roles. The token file holds only hashes, so reading it gives no access."""

from __future__ import annotations

import hashlib
import json
import secrets
import tomllib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from dsms.coordinator.oidc.sign_in import SignIn
from dsms.coordinator.oidc.tokens import OidcTokens
from dsms.model.permission import Permission
from dsms.model.principal import Principal
from dsms.model.roles import Role
from operators.core.errors import ConfigError

_PREFIX, _BYTES = "dsms_", 32
#: The attribute of a route's function that holds the role which it declares.
_NEEDED = "needed_role"
_Endpoint = TypeVar("_Endpoint", bound=Callable[..., Any])


class Token(Permission, frozen=True):
    """A token as it is kept: its owner, its role, the hash of its text, and what it permits."""

    name: str
    role: Role
    sha256: str

    @property
    def principal(self) -> Principal:
        """Whoever has the token."""
        return Principal(self.name, self.role, self.rules, self.allowance)


@dataclass(frozen=True)
class Access:
    """The known tokens. A reader sees everything; a writer creates and drops objects and writes rows; an administrator
    may also run what reads with the coordinator's own rights. The rules of a token take some of that away.

    >>> text, known = new_token("ann", "writer")
    >>> Access((known,)).principal_of(text).name, Access((known,)).principal_of("else")
    ('ann', None)

    Tokens of issuers of OIDC are known as well, if there are such.
    """

    tokens: tuple[Token, ...]
    oidc: OidcTokens | None = None
    sign_in: SignIn | None = None

    def __post_init__(self) -> None:
        doubled = [name for name, count in Counter(token.name for token in self.tokens).items() if count > 1]
        if doubled:
            raise ConfigError(
                f'two tokens are named "{doubled[0]}"', hint="limits and audit tell tokens by their names"
            )
        self.principal_of("")  # refuses wrong patterns at once

    def principal_of(self, text: str) -> Principal | None:
        """Whoever has a token, None for an unknown token. One look-up by its hash, whatever the number of tokens: where
        it fails says nothing, since nobody can choose a text by its hash."""
        return self._principals.get(_hash(text))

    async def issued(self, text: str) -> Principal | None:
        """Whoever has a token of an issuer of OIDC; None where the text is none, and the errors of
        `OidcTokens.principal_of`."""
        return await self.oidc.principal_of(text) if self.oidc is not None and self.oidc.takes(text) else None

    @cached_property
    def _principals(self) -> dict[str, Principal]:
        return {token.sha256: token.principal for token in self.tokens}


def new_token(name: str, role: Role, **fields: Any) -> tuple[str, Token]:
    """The text of a new token, which is told once, and the token as it is kept, with the optional
    fields of `Token`."""
    text = _PREFIX + secrets.token_urlsafe(_BYTES)
    return text, Token(name, role, _hash(text), **fields)


def entry(token: Token) -> str:
    """The token as a table of the token file.

    >>> print(entry(Token("ann", "reader", "00", read=("orders*",))))
    [[token]]
    name = "ann"
    role = "reader"
    sha256 = "00"
    read = ["orders*"]
    """
    given = {name: value for name, value in msgspec.to_builtins(token).items() if value is not None}
    # a JSON text or list of texts is one of TOML, too
    return "\n".join(["[[token]]", *(f"{name} = {json.dumps(value)}" for name, value in given.items())])


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
    a script needs, `check_roles` says."""
    return declared_role(endpoint) or ("reader" if method in ("GET", "HEAD", "OPTIONS") else "writer")


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
