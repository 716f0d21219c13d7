"""The public keys of an issuer: fetched on demand, cached and renewed. The rate of fetches is limited, so that clients
cannot cause many fetches with invalid tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import httpx
import msgspec
import structlog
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, JWKRegistry, OKPKey, RSAKey

from operators.core.errors import ExternalError

Key = RSAKey | ECKey | OKPKey
#: Returns the document of keys at a URL. Raises ExternalError if that fails.
Fetch = Callable[[str], Awaitable[bytes]]
#: The age in seconds from which keys are fetched again.
FRESH_S = 300.0
#: The least time in seconds between two fetches, for an unknown key or after a failure.
PAUSE_S = 10.0
#: The age in seconds up to which keys are used while the issuer cannot be reached.
STALE_S = 3600.0
_TIMEOUT_S, _LONGEST, _MIN_RSA_BITS = 5.0, 1_000_000, 2048
log = structlog.get_logger()


class SigningKeys:
    """The keys of one issuer. All calls are made in one event loop; concurrent calls share one fetch."""

    def __init__(self, url: str, fetch: Fetch, clock: Callable[[], float]) -> None:
        self._url, self._fetch, self._clock = url, fetch, clock
        self._keys: tuple[Key, ...] = ()
        #: The times of the last successful fetch and of the last attempt; None for never.
        self._fetched: float | None = None
        self._tried: float | None = None
        self._failure: ExternalError | None = None
        self._running: asyncio.Task[None] | None = None

    async def find(self, kid: str | None) -> Key | None:
        """The key with an id, or the only key for a token without an id; None if it does not exist. Does not wait while
        the key is known and not too old. Raises ExternalError if the key is unknown or too old and the issuer cannot be
        reached."""
        key = self._known(kid)
        if key is not None and self._age() <= STALE_S:
            if self._age() > FRESH_S:
                self._renewing()
            return key
        if (renewing := self._renewing()) is not None:
            await asyncio.shield(renewing)  # a caller that disconnects does not cancel the fetch for the others
        key = self._known(kid)
        if self._failure is not None and (key is None or self._age() > STALE_S):
            raise self._failure
        return key

    def _age(self) -> float:
        return float("inf") if self._fetched is None else self._clock() - self._fetched

    def _known(self, kid: str | None) -> Key | None:
        if kid is None:
            return self._keys[0] if len(self._keys) == 1 else None
        return next((key for key in self._keys if key.kid == kid), None)

    def _renewing(self) -> asyncio.Task[None] | None:
        """The fetch that runs already or begins now; None if the last attempt is too recent."""
        tried_just_now = self._tried is not None and self._clock() - self._tried < PAUSE_S
        if self._running is None and not tried_just_now:
            self._running = asyncio.create_task(self._renew())
        return self._running

    async def _renew(self) -> None:
        self._tried = self._clock()
        try:
            self._keys = keys_of(await self._fetch(self._url))
            self._fetched, self._failure = self._clock(), None
        except ExternalError as error:
            log.warning("the keys of an issuer could not be fetched", url=self._url, reason=str(error))
            self._failure = error
        finally:
            self._running = None


def keys_of(document: bytes) -> tuple[Key, ...]:
    """The public keys of a JWKS document. Leaves out keys of an unknown kind, keys that are too short, and symmetric
    keys, since tokens must be signed with a private key. Raises ExternalError if the document is not a JWKS document.

    >>> keys_of(b'{"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "a"}, {"kty": "new"}, 7]}')
    ()
    """
    try:
        entries = msgspec.json.decode(document, type=_Document).keys
    except (msgspec.DecodeError, RecursionError) as error:
        raise ExternalError("the issuer's answer is not a JWKS document") from error
    return tuple(key for entry in entries if (key := _key(entry)) is not None)


class _Document(msgspec.Struct):
    keys: Sequence[Any]


def _key(entry: Any) -> Key | None:
    if not isinstance(entry, dict) or entry.get("kty") not in ("RSA", "EC", "OKP") or entry.get("use", "sig") != "sig":
        return None
    try:
        key = JWKRegistry.import_key(entry)
        assert isinstance(key, RSAKey | ECKey | OKPKey)
        if isinstance(key, RSAKey) and key.public_key.key_size < _MIN_RSA_BITS:
            return None
    except (JoseError, ValueError, TypeError, KeyError) as error:
        log.warning("a key of an issuer cannot be used", kid=entry.get("kid"), reason=type(error).__name__)
        return None
    return key


async def fetched(url: str) -> bytes:
    """Fetches the document at a URL; does not follow redirects."""
    try:
        async with httpx.AsyncClient(timeout=_TIMEOUT_S, follow_redirects=False) as client:
            answer = await client.get(url, headers={"Accept": "application/json"})
    except httpx.HTTPError as error:
        reason = f"cannot reach the issuer's keys at {url}: {str(error) or type(error).__name__}"
        raise ExternalError(reason, hint="tokens of the coordinator's token file still work") from error
    if answer.status_code != httpx.codes.OK or len(answer.content) > _LONGEST:
        raise ExternalError(f"the issuer's keys at {url} cannot be read: HTTP status {answer.status_code}")
    return answer.content
