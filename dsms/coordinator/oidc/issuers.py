"""The trusted issuers of OIDC tokens, and what their tokens permit: settings, and decisions without I/O."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec

from dsms.model.permission import Permission
from dsms.model.principal import Principal
from dsms.model.roles import Role
from operators.core.errors import ConfigError

#: Algorithms that sign with a private key. No other is accepted: not `none`, nor HMAC, whose key would be public.
Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519"]
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class Grant(Permission, frozen=True):
    """What a token permits if one of its claims is, or contains, a value: a role, and the same restrictions as for the
    coordinator's own tokens. Dots separate the parts of a nested claim."""

    claim: str
    value: str
    role: Role

    def holds(self, claims: Mapping[str, Any]) -> bool:
        """Whether the grant applies to a token with these claims.

        >>> grant = Grant("realm_access.roles", "streams", "reader")
        >>> grant.holds({"realm_access": {"roles": ["x", "streams"]}}), grant.holds({"realm_access.roles": "streams"})
        (True, True)
        >>> grant.holds({"realm_access": "streams"}), Grant("groups", "admin", "reader").holds({"groups": "admins"})
        (False, False)
        """
        value = claims.get(self.claim) if self.claim in claims else _nested(claims, self.claim.split("."))
        return self.value in value if isinstance(value, list) else value == self.value


class Console(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How people sign in to the console: as a public client (without a secret), by the authorization code flow. `token`
    says which of the tokens that the issuer returns is used."""

    client_id: Annotated[str, msgspec.Meta(min_length=1)]
    authorization_url: str
    token_url: str
    scope: str = "openid"
    token: Literal["id_token", "access_token"] = "id_token"


class Issuer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An issuer: its name in `iss`, this service's name in `aud`, the URL of its keys, its algorithms, and its grants.
    The first grant that applies to a token determines what the token permits."""

    issuer: Annotated[str, msgspec.Meta(min_length=1)]
    audience: Annotated[str, msgspec.Meta(min_length=1)]
    jwks_url: str
    grant: Annotated[tuple[Grant, ...], msgspec.Meta(min_length=1)]
    algorithms: Annotated[tuple[Algorithm, ...], msgspec.Meta(min_length=1)] = ("RS256", "ES256")
    leeway_seconds: Annotated[int, msgspec.Meta(ge=0, le=300)] = 30
    console: Console | None = None

    def principal(self, claims: Mapping[str, Any]) -> Principal | None:
        """The principal of a token with these claims; None if no grant applies. Its name is the issuer's name with the
        subject, so it differs from subjects of other issuers and from the coordinator's own tokens.

        >>> issuer = Issuer("https://id", "dsms", "https://id/keys", (Grant("groups", "a", "writer", read=("x",)),))
        >>> ann = issuer.principal({"sub": "ann", "groups": ["a"]})
        >>> ann.name, ann.role, ann.may_read("x"), ann.may_read("y"), issuer.principal({"sub": "ann"})
        ('https://id|ann', 'writer', True, False, None)
        """
        for grant in self.grant:
            if grant.holds(claims):
                return Principal(f"{self.issuer}|{claims['sub']}", grant.role, grant.rules, grant.limits)
        return None


def read_issuers(file: Path) -> tuple[Issuer, ...]:
    """The issuers of a TOML file with tables `[[issuer]]`, each with tables `[[issuer.grant]]`. Raises ConfigError for
    any other file."""
    try:
        content = tomllib.loads(file.read_text("utf-8"))
        if others := content.keys() - {"issuer"}:
            raise ConfigError(f'file "{file}" may have only [[issuer]] tables, but has: {", ".join(sorted(others))}')
        issuers = tuple(msgspec.convert(content.get("issuer", []), list[Issuer]))
    except OSError as error:
        raise ConfigError(f'file "{file}" cannot be read: {error.strerror}') from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise ConfigError(f'file "{file}" is invalid: {error}', hint="see docs/security.md#oidc") from error
    _check(issuers, file)
    return issuers


def _check(issuers: tuple[Issuer, ...], file: Path) -> None:
    if not issuers:
        raise ConfigError(f'file "{file}" has no [[issuer]]')
    doubled = [name for name, count in Counter(issuer.issuer for issuer in issuers).items() if count > 1]
    if doubled:
        raise ConfigError(f'issuer "{doubled[0]}" is in "{file}" twice')
    for issuer in issuers:
        _check_url("jwks_url", issuer.jwks_url, "without TLS, an attacker who changes the answer could sign tokens")
        if issuer.console is not None:
            for name in ("authorization_url", "token_url"):
                _check_url(name, getattr(issuer.console, name), "without TLS, an attacker could steal tokens")
        for grant in issuer.grant:
            _ = grant.rules  # raises ConfigError for invalid patterns at once


def _check_url(name: str, url: str, why: str) -> None:
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        raise ConfigError(f'{name} "{url}" must begin with https://', hint=why)


def _nested(claims: Any, path: list[str]) -> Any:
    for part in path:
        claims = claims.get(part) if isinstance(claims, dict) else None
    return claims
