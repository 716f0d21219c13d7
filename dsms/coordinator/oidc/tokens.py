"""Checks the signature and the claims of an OIDC token, and determines its principal."""

from __future__ import annotations

import binascii
import time
from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeVar

import msgspec
from joserfc import jwt
from joserfc.errors import ClaimError, ExpiredTokenError, JoseError

from dsms.coordinator.oidc.issuers import Issuer
from dsms.coordinator.oidc.signing_keys import Fetch, SigningKeys, fetched
from dsms.model.principal import Forbidden, Principal
from operators.core.errors import UserError

_LONGEST, _LONGEST_SUBJECT = 16_384, 255
_TYPES = ("jwt", "at+jwt", "application/at+jwt")
_Part = TypeVar("_Part")


class TokenRefused(UserError):
    """The token is invalid, is for another service, or has expired."""


class _Header(msgspec.Struct):
    alg: str
    kid: str | None = None
    typ: str = "jwt"


class _Claims(msgspec.Struct):
    iss: str


class OidcTokens:
    """The tokens of some issuers. `clock` returns the Unix time in seconds, `elapsed` a monotonic time in seconds."""

    def __init__(
        self,
        issuers: Iterable[Issuer],
        fetch: Fetch = fetched,
        clock: Callable[[], float] = time.time,
        elapsed: Callable[[], float] = time.monotonic,
    ) -> None:
        self._issuers = {one.issuer: (one, SigningKeys(one.jwks_url, fetch, elapsed)) for one in issuers}
        self._clock = clock

    @staticmethod
    def looks_like_jwt(text: str) -> bool:
        """Whether a text has the form of an OIDC token; the coordinator's own tokens have no dots.

        >>> OidcTokens.looks_like_jwt("eyJ.eyJ.c2ln"), OidcTokens.looks_like_jwt("dsms_abc")
        (True, False)
        """
        return text.count(".") == 2

    async def principal_of(self, text: str) -> Principal:
        """The principal of a token. Raises TokenRefused if the token is not valid, Forbidden if it permits nothing
        here, ExternalError while the keys of its issuer are unknown and cannot be fetched."""
        issuer, claims = await self._checked(text)
        principal = issuer.principal(claims)
        if principal is None:
            hint = "an administrator can add a grant for one of its claims"
            raise Forbidden(f'tokens of issuer "{issuer.issuer}" with these claims permit nothing', hint=hint)
        return replace(principal, until=claims["exp"] + issuer.leeway_seconds)

    async def _checked(self, text: str) -> tuple[Issuer, dict[str, Any]]:
        """The issuer and the claims of a token, after a check of its signature and claims. The token's own header and
        `iss` select only among the keys of trusted issuers and among allowed algorithms."""
        if len(text) > _LONGEST:
            raise TokenRefused("the token is too long")
        header, unverified = _part(text, 0, _Header), _part(text, 1, _Claims)
        if unverified.iss not in self._issuers:
            raise TokenRefused("the token is from an unknown issuer")
        issuer, keys = self._issuers[unverified.iss]
        if header.alg not in issuer.algorithms or header.typ.lower() not in _TYPES:
            raise TokenRefused(f"the token is not signed by {' or '.join(issuer.algorithms)}")
        key = await keys.find(header.kid)
        if key is None:
            raise TokenRefused("the token is signed by an unknown key")
        try:
            claims = jwt.decode(text, key, algorithms=[header.alg]).claims
        except (JoseError, ValueError, RecursionError) as error:
            raise TokenRefused("the token has a wrong signature") from error
        self._check_claims(issuer, claims)
        return issuer, claims

    def _check_claims(self, issuer: Issuer, claims: dict[str, Any]) -> None:
        checks = jwt.JWTClaimsRegistry(
            now=int(self._clock()),
            leeway=issuer.leeway_seconds,
            iss={"essential": True, "value": issuer.issuer},
            aud={"essential": True, "value": issuer.audience},
            exp={"essential": True},
            sub={"essential": True},
        )
        try:
            checks.validate(claims)
        except ExpiredTokenError as error:
            raise TokenRefused("the token has expired", hint="get a new one from its issuer") from error
        except ClaimError as error:
            raise TokenRefused(
                f'claim "{error.claim}" of the token is missing or not valid for this service'
            ) from error
        if len(claims["sub"]) > _LONGEST_SUBJECT or not claims["sub"].isprintable():
            raise TokenRefused('claim "sub" of the token is too long or has unprintable characters')


def _part(text: str, number: int, form: type[_Part]) -> _Part:
    """A decoded part of a token, which is not verified yet."""
    encoded = text.split(".")[number]
    try:
        return msgspec.json.decode(urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)), type=form)
    except (binascii.Error, ValueError, msgspec.DecodeError, RecursionError) as error:
        raise TokenRefused("the token cannot be read") from error
