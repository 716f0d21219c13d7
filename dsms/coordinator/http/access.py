"""API tokens and their roles. The token file holds only hashes, so reading it gives no access."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from dsms.coordinator.oidc.sign_in import SignIn
from dsms.coordinator.oidc.tokens import OidcTokens
from dsms.model.principal import Principal
from dsms.model.roles import Role
from dsms.model.tokens import Token, hashed, tokens_of
from operators.core.errors import ConfigError

#: The attribute of a route's function that holds the role declared by `needs`.
_NEEDED = "needed_role"
_Endpoint = TypeVar("_Endpoint", bound=Callable[..., Any])


@dataclass(frozen=True)
class Access:
    """The known tokens. A reader sees everything; a writer creates and drops objects and writes rows; an administrator
    may also run statements that read with the coordinator's own rights. The rules of a token restrict that.

    >>> from dsms.model.tokens import new_token
    >>> text, known = new_token("ann", "writer")
    >>> Access((known,)).principal_of(text).name, Access((known,)).principal_of("else")
    ('ann', None)

    If OIDC issuers are configured, their tokens are known as well.
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
        self.principal_of("")  # raises ConfigError for invalid patterns at once

    def principal_of(self, text: str) -> Principal | None:
        """The principal of a token, None for an unknown token. It takes one look-up by the token's hash, whatever the
        number of tokens. Its timing reveals nothing about known tokens, since nobody can choose a text by its hash."""
        return self._principals.get(hashed(text))

    async def issued(self, text: str) -> Principal | None:
        """The principal of a token of an OIDC issuer; None if the text is no such token. Raises the errors of
        `OidcTokens.principal_of`."""
        return await self.oidc.principal_of(text) if self.oidc is not None and self.oidc.looks_like_jwt(text) else None

    @cached_property
    def _principals(self) -> dict[str, Principal]:
        return {token.sha256: token.principal for token in self.tokens}


def read_tokens(file: Path) -> Access:
    """The tokens of a token file. Raises ConfigError if the file is not a token file."""
    return Access(tokens_of(file))


def needs(role: Role) -> Callable[[_Endpoint], _Endpoint]:
    """Decorates the function of a route that needs another role than its HTTP method implies.

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
    """The role that the function of a route declares, None if it declares none."""
    role: Role | None = getattr(endpoint, _NEEDED, None)
    return role


def needed_for_call(method: str, endpoint: object) -> Role:
    """The role that a call needs: the role that the function of its route declares, otherwise the role of the method.
    `Permitted` determines the roles that the statements of a script need."""
    return declared_role(endpoint) or ("reader" if method in ("GET", "HEAD", "OPTIONS") else "writer")
