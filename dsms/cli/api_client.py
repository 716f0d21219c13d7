"""The client as commands use it: what fails is told at once, and tried again by who sees it."""

from __future__ import annotations

import msgspec

from dsms.client import Client
from dsms.client.calls import Call
from dsms.client.documents import Document

_document = msgspec.json.Decoder(Document).decode


class ApiClient(Client):
    """One coordinator, asked once."""

    def __init__(self, url: str, token: str | None = None) -> None:
        """`token` is by default that of the environment, `DSMS_TOKEN`."""
        super().__init__(url, token, attempts=1)

    def plan(self, form: str) -> bytes:
        """All objects and plans as a document, in JSON or XML."""
        return self._do(Call("GET", "/v1/plan", bytes, params={"format": form}))

    def make(self, body: bytes) -> Document:
        """Makes the objects of a document that are not there."""
        return self._do(Call("POST", "/v1/plan", _document, content=body, repeatable=False))
