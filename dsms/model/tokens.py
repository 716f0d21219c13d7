"""Creates API tokens, and reads the token file, which contains only their hashes."""

from __future__ import annotations

import hashlib
import json
import secrets
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from dsms.model.permission import Permission
from dsms.model.principal import Principal
from dsms.model.roles import Role
from operators.core.errors import ConfigError

_PREFIX, _BYTES = "dsms_", 32


class Token(Permission, frozen=True):
    """A stored token: its owner, its role, the hash of its text, and its permissions."""

    name: str
    role: Role
    sha256: str

    @property
    def principal(self) -> Principal:
        """The caller that presents the token."""
        return Principal(self.name, self.role, self.rules, self.limits)


def new_token(name: str, role: Role, **fields: Any) -> tuple[str, Token]:
    """The text of a new token, which is shown only once, and the token as stored. `fields` are the optional fields of
    `Token`."""
    text = _PREFIX + secrets.token_urlsafe(_BYTES)
    return text, Token(name, role, hashed(text), **fields)


def entry(token: Token) -> str:
    """The text of the token's table in the token file.

    >>> print(entry(Token("ann", "reader", "00", read=("orders*",))))
    [[token]]
    name = "ann"
    role = "reader"
    sha256 = "00"
    read = ["orders*"]
    """
    given = {name: value for name, value in msgspec.to_builtins(token).items() if value is not None}
    # JSON strings and lists of strings are valid TOML
    return "\n".join(["[[token]]", *(f"{name} = {json.dumps(value)}" for name, value in given.items())])


def tokens_of(file: Path) -> tuple[Token, ...]:
    """The tokens of a TOML file with tables `[[token]]`. Raises ConfigError if the file cannot be read or has other
    content.
    """
    try:
        content = tomllib.loads(file.read_text("utf-8"))
        if others := content.keys() - {"token"}:
            raise ConfigError(f'token file "{file}" has other entries than [[token]]: {", ".join(sorted(others))}')
        return tuple(msgspec.convert(content.get("token", []), list[Token]))
    except OSError as error:
        raise ConfigError(f'token file "{file}" cannot be read: {error.strerror}') from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise ConfigError(
            f'token file "{file}" is invalid: {error}', hint="make a token with: dsms token NAME --role ROLE"
        ) from error


def hashed(text: str) -> str:
    """The SHA-256 hash of the text of a token, in hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()
