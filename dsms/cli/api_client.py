"""The API client of the commands. It never retries: it reports a failure at once, and the user decides what to do."""

from __future__ import annotations

from urllib.parse import quote

import msgspec

from dsms.client import Client
from dsms.client.calls import Call, check_publishing, import_document
from dsms.client.documents import Document

_document = msgspec.json.Decoder(Document).decode
_documents = msgspec.json.Decoder(list[Document]).decode


class ApiClient(Client):
    """A client of one coordinator that sends every request once."""

    def __init__(self, url: str, token: str | None = None) -> None:
        """`token` defaults to the environment variable `DSMS_TOKEN`."""
        super().__init__(url, token, attempts=1)

    def plan(self, form: str) -> bytes:
        """All objects and plans as a document in `form`, "json" or "xml"."""
        return self._do(Call("GET", "/v1/plan", bytes, params={"format": form}))

    def control(self, kind: str) -> list[Document]:
        """The control table of a kind of entity, such as "queries"."""
        return self._do(Call("GET", f"/v1/control/{kind}", _documents))

    def story(self, fragment: str, last: int) -> list[Document]:
        """The last events of a fragment, oldest first."""
        path = f"/v1/fragments/{quote(fragment, safe='')}/story"
        return self._do(Call("GET", path, _documents, params={"last": last}))

    def request_checkpoint(self) -> int:
        """Asks executors for checkpoints. Returns the request's number, which executors report once it is served."""
        return int(self._do(Call("POST", "/v1/checkpoints", _document))["request"])

    def check_publishing(self, topic: str, *, force: bool) -> None:
        """Raises ApiError for a topic that only the system writes; an administrator may force it."""
        self._do(check_publishing(topic, force=force))

    def import_document(self, body: bytes) -> Document:
        """Creates the objects of a document that do not exist yet."""
        return self._do(import_document(body))
