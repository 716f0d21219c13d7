"""A small identity provider: it signs every user in as ann, by the authorization code flow with PKCE."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT, AUDIENCE = "console", "console"
_KEY = RSAKey.generate_key(2048, {"kid": "k1", "use": "sig", "alg": "RS256"})


class IdentityProvider:
    """Serves `/authorize`, `/token` and `/keys`. A code is valid once, for the browser whose challenge it answers."""

    def __init__(self, role: str = "reader") -> None:
        self.refused: list[str] = []
        #: The error that `/authorize` returns instead of a code, if any.
        self.error = ""
        self._role = role
        self._codes: dict[str, dict[str, str]] = {}
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path, asked = urlsplit(self.path).path, _first(urlsplit(self.path).query)
                if path == "/keys":
                    self._answer(200, {"keys": [_KEY.as_dict(private=False)]})
                else:
                    self.send_response(302)
                    self.send_header("Location", provider.authorized(asked))
                    self.end_headers()

            def do_POST(self) -> None:
                form = _first(self.rfile.read(int(self.headers["Content-Length"])).decode())
                self._answer(*provider.exchanged(form))

            def _answer(self, status: int, document: object) -> None:
                body = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *arguments: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Stops serving."""
        self.server.shutdown()
        self.server.server_close()

    def settings(self, file: Path) -> Path:
        """Writes the file of issuers, with this provider as the only issuer."""
        file.write_text(f"""
[[issuer]]
issuer = "{self.url}"
audience = "{AUDIENCE}"
jwks_url = "{self.url}/keys"
[issuer.console]
client_id = "{CLIENT}"
authorization_url = "{self.url}/authorize?tenant=a"
token_url = "{self.url}/token"
[[issuer.grant]]
claim = "sub"
value = "ann"
role = "{self._role}"
""")
        return file

    def authorized(self, asked: dict[str, str]) -> str:
        """The URL to which the browser is redirected, with a code or an error."""
        assert (asked["tenant"], asked["client_id"], asked["scope"]) == ("a", CLIENT, "openid")
        assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")
        code = secrets.token_urlsafe(8)
        self._codes[code] = asked
        given = {"error": self.error} if self.error else {"code": code}
        return f"{asked['redirect_uri']}?{urlencode({**given, 'state': asked['state']})}"

    def exchanged(self, form: dict[str, str]) -> tuple[int, dict[str, object]]:
        """The status and the document with which a code is exchanged for tokens, or refused."""
        asked = self._codes.pop(form["code"], None)
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        right = asked is not None and (challenge, form["redirect_uri"], form["client_id"], form["grant_type"]) == (
            asked["code_challenge"], asked["redirect_uri"], CLIENT, "authorization_code",
        )  # fmt: skip
        if not right:
            self.refused.append(form["code"])
            return 400, {"error": "invalid_grant", "error_description": "this code does not count"}
        claims = {"iss": self.url, "aud": AUDIENCE, "sub": "ann", "exp": int(time.time()) + 600}
        return 200, {"id_token": jwt.encode({"alg": "RS256", "kid": "k1"}, claims, _KEY), "access_token": "opaque"}


def _first(query: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(query).items()}
