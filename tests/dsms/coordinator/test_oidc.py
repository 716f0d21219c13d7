"""OIDC tokens: a real HTTP server serves the keys, and the tests sign the tokens."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from joserfc import jwt
from joserfc.errors import SecurityWarning
from joserfc.jwk import ECKey, OctKey, RSAKey

from dsms.coordinator.__main__ import read_access
from dsms.coordinator.http.access import Access
from dsms.coordinator.http.api import create_app
from dsms.coordinator.oidc.issuers import Grant, Issuer, read_issuers
from dsms.coordinator.oidc.signing_keys import FRESH_S, PAUSE_S, STALE_S, keys_of
from dsms.coordinator.oidc.tokens import OidcTokens
from dsms.coordinator.registry.subjects import SchemaRegistry
from dsms.model.tokens import new_token
from operators.core.errors import ConfigError, ExternalError
from tests.support.fake_service import FakeService

NOW = 1_800_000_000
NAME, AUDIENCE = "https://login.example/realms/streams", "dsms"
RSA = RSAKey.generate_key(2048, {"kid": "r1", "use": "sig", "alg": "RS256"})
EC = ECKey.generate_key("P-256", {"kid": "e1"})
OTHER = RSAKey.generate_key(2048, {"kid": "r1"})
OURS, OUR_ENTRY = new_token("own", "writer")
GRANTS = (
    Grant("groups", "admins", "administrator"),
    Grant("realm_access.roles", "analysts", "reader", read=("orders*",), calls_per_second=5),
    Grant("scope", "write", "writer"),
)


class Notes:
    """An audit log in memory."""

    def __init__(self) -> None:
        self.who: list[str] = []

    def begins(self, caller: Any, what: str) -> None:
        self.who.append(caller.principal.name)

    def ended(self, caller: Any, what: str, event: str, outcome: str, seconds: float) -> None: ...

    def refused(self, caller: Any, what: str, outcome: str, more: int) -> None: ...

    def last(self, count: int) -> list[Any]:
        return []


class Login:
    """An issuer that serves its keys while it is up and counts the requests, and a coordinator that trusts it. Tests
    set the clock."""

    def __init__(self) -> None:
        self.keys: list[Any] = [RSA, EC]
        self.asked, self.up, self.body = 0, True, b""
        self.elapsed, self.now = 1000.0, float(NOW)
        login = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                login.asked += 1
                keys = {"keys": [key.as_dict(private=False) for key in login.keys]}
                body = login.body or json.dumps(keys).encode()
                self.send_response(200 if login.up else 500)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{self.server.server_port}/keys"
        issuer = Issuer(NAME, AUDIENCE, url, GRANTS)
        tokens = OidcTokens([issuer], clock=lambda: self.now, elapsed=lambda: self.elapsed)
        self.service, self.notes = FakeService(), Notes()
        self.service.audit = self.notes
        app = create_app(self.service, SchemaRegistry(lambda _: None), Access((OUR_ENTRY,), tokens))
        self.client = TestClient(app)

    def get(self, token: str, path: str = "/v1/queries") -> tuple[int, str]:
        """The status of a call, and the message of its error."""
        answer = self.client.get(path, headers={"Authorization": f"Bearer {token}"})
        return answer.status_code, "" if answer.is_success else answer.json()["error"]["message"]


@pytest.fixture
def login() -> Iterator[Login]:
    made = Login()
    with made.client:  # one event loop for all calls
        yield made
    made.server.shutdown()
    made.server.server_close()


def token(key: Any = RSA, header: dict[str, Any] | None = None, **claims: Any) -> str:
    """A valid token, except for the given header and claims. A claim that is None is left out."""
    algorithm = "ES256" if isinstance(key, ECKey) else "RS256"
    given = {"iss": NAME, "aud": AUDIENCE, "sub": "ann", "exp": NOW + 60, "groups": ["x", "admins"], **claims}
    told = {"alg": algorithm, "kid": key.kid, **(header or {})}
    return jwt.encode(
        {name: value for name, value in told.items() if value is not None},
        {name: value for name, value in given.items() if value is not None},
        key,
        algorithms=[told["alg"]],
    )


@pytest.mark.parametrize("key", [RSA, EC])
def test_tokens_of_the_issuer_are_accepted(login: Login, key: Any) -> None:
    assert login.get(token(key)) == (200, "")
    assert login.get(token(key, aud=["other", AUDIENCE])) == (200, "")
    assert login.get(token(key, header={"typ": "at+jwt"}, nbf=NOW + 20, exp=NOW - 20, iat=NOW)) == (200, "")  # leeway
    assert login.get(OURS) == (200, "")
    assert login.asked == 1


@pytest.mark.parametrize(
    ("claims", "said"),
    [
        ({"exp": NOW - 31}, "has expired"),
        ({"exp": None}, 'claim "exp"'),
        ({"exp": "tomorrow"}, 'claim "exp"'),
        ({"nbf": NOW + 31}, 'claim "nbf"'),
        ({"aud": "other"}, 'claim "aud"'),
        ({"aud": ["other"]}, 'claim "aud"'),
        ({"aud": None}, 'claim "aud"'),
        ({"sub": None}, 'claim "sub"'),
        ({"sub": 7}, 'claim "sub"'),
        ({"sub": "a\nb"}, 'claim "sub"'),
        ({"sub": "a" * 256}, 'claim "sub"'),
        ({"iss": "https://login.example"}, "unknown issuer"),
        ({"iss": f"{NAME}/"}, "unknown issuer"),
    ],
)
def test_tokens_with_wrong_claims_are_refused(login: Login, claims: dict[str, Any], said: str) -> None:
    status, message = login.get(token(**claims))
    assert status == 401 and said in message


def unsigned(algorithm: str, signature: str = "") -> str:
    """A token that claims this algorithm and has a made-up signature."""
    header, payload, _ = token().split(".")
    told = base64.urlsafe_b64encode(json.dumps({"alg": algorithm, "kid": "r1"}).encode()).rstrip(b"=").decode()
    return f"{told}.{payload}.{signature}"


def signed_with_the_public_key() -> str:
    """A token signed by HMAC with the public key. A service that accepts any algorithm would accept it."""
    import hashlib
    import hmac

    begin = unsigned("HS256").rpartition(".")[0]
    made = hmac.new(RSA.as_pem(private=False), begin.encode(), hashlib.sha256).digest()
    return f"{begin}.{base64.urlsafe_b64encode(made).rstrip(b'=').decode()}"


@pytest.mark.parametrize(
    "text",
    [
        unsigned("none"),
        unsigned("None"),
        unsigned("RS256"),
        signed_with_the_public_key(),
        jwt.encode({"alg": "HS256", "kid": "r1"}, {"iss": NAME}, OctKey.generate_key(256), algorithms=["HS256"]),
        jwt.encode({"alg": "RS512", "kid": "r1"}, {"iss": NAME}, OTHER, algorithms=["RS512"]),
        token(OTHER),
        token(RSA, header={"kid": "e1"}),
        token(EC, header={"kid": "r1"}),
        token(header={"kid": None}),
        token(header={"typ": "logout+jwt"}),
        token()[:-4] + "AAAA",
        "a.b.c",
        "..",
        "é.é.é",
        f"{'A' * 20_000}.b.c",
        base64.urlsafe_b64encode(b"[" * 9000).decode() + ".b.c",
    ],
)
def test_tokens_with_wrong_signatures_are_refused(login: Login, text: str) -> None:
    header = base64.b64encode(b"any:" + text.encode()).decode()
    answer = login.client.get("/v1/queries", headers={"Authorization": f"Basic {header}"})
    assert answer.status_code == 401 and answer.json()["error"]["kind"] == "unauthorized"
    assert 'error="invalid_token"' in answer.headers["WWW-Authenticate"]


def test_claims_give_role_and_rules_and_the_name_in_the_audit(login: Login) -> None:
    analyst = {"groups": None, "realm_access": {"roles": ["analysts"]}}
    statement = {"Authorization": f"Bearer {token(**analyst)}"}
    assert login.client.delete("/v1/queries/hot", headers=statement).status_code == 403
    assert login.get(token(**analyst), "/v1/sources/readings")[0] == 403
    assert login.get(token(groups=None, scope="read"))[0] == 403
    assert "permit nothing" in login.get(token(groups=None))[1]
    writer = {"Authorization": f"Bearer {token(groups=None, scope='write')}"}
    login.client.delete("/v1/queries/hot", headers=writer)
    assert login.notes.who == [f"{NAME}|ann"]


def test_a_new_key_is_fetched_when_a_token_names_it_but_not_for_every_token(login: Login) -> None:
    assert login.get(token()) == (200, "")
    fresh = RSAKey.generate_key(2048, {"kid": "r2"})
    login.keys = [fresh, EC]
    assert login.get(token(fresh)) == (401, "the token is signed by an unknown key")  # keys were fetched just before
    login.elapsed += PAUSE_S
    assert login.get(token(fresh)) == (200, "")
    assert login.asked == 2
    login.elapsed += PAUSE_S
    for number in range(20):
        assert login.get(token(RSA, header={"kid": f"x{number}"}))[0] == 401
    assert login.asked == 3
    assert login.get(token(RSA)) == (401, "the token is signed by an unknown key")  # the issuer has withdrawn this key


def test_withdrawn_key_is_refused_after_a_while(login: Login) -> None:
    assert login.get(token()) == (200, "")
    login.keys = [EC]
    login.elapsed += FRESH_S + 1
    for _ in range(100):  # the keys are fetched in the background
        if login.get(token())[0] == 401:
            break
    assert login.get(token())[0] == 401


def test_unavailable_issuer_is_distinguished_from_a_wrong_token(login: Login) -> None:
    login.up = False
    answer = login.client.get("/v1/queries", headers={"Authorization": f"Bearer {token()}"})
    assert answer.status_code == 503 and answer.headers["Retry-After"] == "10"
    assert "cannot be read: HTTP status 500" in answer.json()["error"]["message"]
    assert login.get(OURS) == (200, "")
    assert login.get(token())[0] == 503 and login.asked == 1
    login.elapsed, login.up = login.elapsed + PAUSE_S, True
    assert login.get(token()) == (200, "")


def test_known_keys_are_used_for_a_while_if_the_issuer_is_unavailable(login: Login) -> None:
    assert login.get(token()) == (200, "")
    login.up = False
    login.elapsed += STALE_S - 1
    assert login.get(token()) == (200, "")
    login.elapsed += PAUSE_S + 2
    assert login.get(token())[0] == 503
    login.server.shutdown()
    login.server.server_close()
    login.elapsed += PAUSE_S
    status, message = login.get(token())
    assert status == 503 and "cannot reach the issuer's keys" in message
    assert login.get(OURS) == (200, "")


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"keys": 7}', b'{"keys": ' + b"[" * 100_000])
def test_invalid_key_documents_are_refused(login: Login, body: bytes) -> None:
    login.body = body
    assert login.get(token())[0] == 503


def test_keys_that_may_not_sign_are_left_out() -> None:
    with pytest.warns(SecurityWarning):
        short = RSAKey.generate_key(1024, {"kid": "s"}).as_dict(private=False)
    private = EC.as_dict(private=True)
    encrypting = {**RSA.as_dict(private=False), "use": "enc"}
    broken = {"kty": "RSA", "kid": "b", "n": "!", "e": "AQAB"}
    shared = {"kty": "oct", "k": "c2VjcmV0", "kid": "o"}
    document = {"keys": [short, encrypting, broken, shared, {"kty": ["RSA"]}, None, private]}
    with pytest.warns(SecurityWarning):
        assert [key.kid for key in keys_of(json.dumps(document).encode())] == ["e1"]
    with pytest.raises(ExternalError, match="not a JWKS document"):
        keys_of(b"{}")


FILE = """
[[issuer]]
issuer = "https://id"
audience = "dsms"
jwks_url = "https://id/keys"
[[issuer.grant]]
claim = "groups"
value = "a"
role = "writer"
write = ["ann_*"]
"""


def test_issuers_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "oidc.toml"
    file.write_text(FILE)
    (issuer,) = read_issuers(file)
    assert issuer.algorithms == ("RS256", "ES256") and issuer.grant[0].write == ("ann_*",)
    access = read_access(None, file)
    assert access is not None and access.oidc is not None and access.principal_of("anything") is None
    assert read_access(None, None) is None


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("https://id/keys", "http://id/keys", "must begin with https://"),
        ('role = "writer"', 'role = "root"', "Invalid enum value"),
        ("ann_*", "a*b", "not a pattern"),
        ('audience = "dsms"', 'audience = ""', "length >= 1"),
        ('audience = "dsms"', "", "audience"),
        ('audience = "dsms"', 'audience = "dsms"\nalgorithms = ["HS256"]', "Invalid enum value"),
        ('audience = "dsms"', 'audience = "dsms"\nalgorithms = ["none"]', "Invalid enum value"),
        ('audience = "dsms"', 'audience = "dsms"\ncolour = 1', "unknown field"),
        ("[[issuer]]", "[[issuers]]", "may have only"),
        (FILE, "", r"has no \[\[issuer\]\]"),
        (FILE, FILE + FILE, "twice"),
    ],
)
def test_wrong_settings_are_refused_at_the_start(tmp_path: Path, old: str, new: str, said: str) -> None:
    file = tmp_path / "oidc.toml"
    file.write_text(FILE.replace(old, new))
    with pytest.raises(ConfigError, match=said):
        read_issuers(file)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_issuers(tmp_path / "gone.toml")
