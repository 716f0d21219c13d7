"""Signs people in to the console at an issuer, by the authorization code flow with PKCE (RFC 7636) of a public client.
The browser gets the code; the coordinator exchanges it for a token, so that the browser calls no other server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import httpx
import msgspec

from dsms.coordinator.oidc.issuers import Issuer
from dsms.coordinator.oidc.tokens import TokenRefused
from operators.core.errors import ExternalError, UserError

#: Sends a form to a URL and returns the status and the body of the answer. Raises ExternalError if there is no answer.
Post = Callable[[str, Mapping[str, str]], Awaitable[tuple[int, bytes]]]
_TIMEOUT_S, _LONGEST = 5.0, 1_000_000


class Exchange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The code that the browser got from an issuer, and the verifier of its challenge, which only the browser knows."""

    issuer: str
    code: str
    verifier: str
    redirect_uri: str


class SignIn:
    """The issuers at which people sign in to the console."""

    def __init__(self, issuers: Iterable[Issuer], post: Post | None = None) -> None:
        self._issuers = {one.issuer: one for one in issuers if one.console is not None}
        self._post = post or posted

    def login_options(self) -> list[dict[str, str]]:
        """The settings with which the browser begins to sign in, for each issuer. They contain no secrets."""
        return [
            {
                "issuer": issuer.issuer,
                "authorization_url": issuer.console.authorization_url,
                "client_id": issuer.console.client_id,
                "scope": issuer.console.scope,
            }
            for issuer in self._issuers.values()
            if issuer.console is not None
        ]

    async def token(self, given: Exchange) -> str:
        """The token of the person who has signed in. Raises UserError for an issuer without sign-in, TokenRefused if
        the issuer refuses the code or returns no token, ExternalError if the issuer cannot be reached."""
        issuer = self._issuers.get(given.issuer)
        if issuer is None or issuer.console is None:
            raise UserError(f'signing in at issuer "{given.issuer[:200]}" is not configured')
        form = {
            "grant_type": "authorization_code",
            "client_id": issuer.console.client_id,
            "code": given.code,
            "code_verifier": given.verifier,
            "redirect_uri": given.redirect_uri,
        }
        status, body = await self._post(issuer.console.token_url, form)
        answer = _document(body)
        if status != httpx.codes.OK:
            why = str(answer.get("error_description") or answer.get("error") or f"HTTP status {status}")
            raise TokenRefused(f"the issuer refuses to sign in: {why[:200]}", hint="sign in again")
        token = answer.get(issuer.console.token)
        if not isinstance(token, str):
            raise TokenRefused(
                f"the issuer returned no {issuer.console.token}", hint='see "token" in docs/security.md#oidc'
            )
        return token


def _document(body: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return {}


async def posted(url: str, form: Mapping[str, str]) -> tuple[int, bytes]:
    """Sends a form and returns the status and the body of the answer; does not follow redirects."""
    try:
        async with httpx.AsyncClient(timeout=_TIMEOUT_S, follow_redirects=False) as client:
            answer = await client.post(url, data=dict(form), headers={"Accept": "application/json"})
    except httpx.HTTPError as error:
        raise ExternalError(f"cannot reach the issuer at {url}: {str(error) or type(error).__name__}") from error
    return answer.status_code, answer.content[:_LONGEST]
