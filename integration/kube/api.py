"""A client of the Kubernetes API, in documents: only what tests and the kubelet need."""

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import yaml

Document = dict[str, Any]
_MERGE = "application/merge-patch+json"


class Api:
    """One user's access to an API server."""

    def __init__(self, url: str, ca: Path, token: str) -> None:
        self.url, self.ca, self.token = url, ca, token
        context = ssl.create_default_context(cafile=str(ca))
        headers = {"Authorization": f"Bearer {token}"}
        self._client = httpx.Client(base_url=url, verify=context, headers=headers, trust_env=False, timeout=20)

    def get(self, path: str) -> Document:
        """The object or list at a path."""
        return self._answer(self._client.get(path))

    def items(self, path: str) -> list[Document]:
        """The objects of the list at a path."""
        return self.get(path)["items"]

    def find(self, path: str) -> Document | None:
        """The object at a path; None if it does not exist."""
        answer = self._client.get(path)
        return None if answer.status_code == 404 else self._answer(answer)

    def create(self, path: str, body: Mapping[str, Any]) -> Document:
        """Creates an object."""
        return self._answer(self._client.post(path, json=body))

    def patch(self, path: str, body: Mapping[str, Any]) -> Document | None:
        """Merges changes into an object; None if it does not exist any more."""
        answer = self._client.patch(path, json=body, headers={"Content-Type": _MERGE})
        return None if answer.status_code == 404 else self._answer(answer)

    def delete(self, path: str, body: Mapping[str, Any] | None = None) -> None:
        """Deletes an object, if it exists."""
        answer = self._client.request("DELETE", path, json=body or {})
        if answer.status_code != 404:
            self._answer(answer)

    def answers(self, path: str) -> bool:
        """Whether a request to the path succeeds."""
        try:
            return self._client.get(path).is_success
        except httpx.HTTPError:
            return False

    def kubeconfig(self, file: Path) -> Path:
        """Writes a KUBECONFIG file for programs."""
        cluster = {"server": self.url, "certificate-authority": str(self.ca)}
        content = {
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "test", "user": {"token": self.token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        }  # fmt: skip
        file.write_text(yaml.safe_dump(content))
        file.chmod(0o600)
        return file

    def close(self) -> None:
        """Closes the connections."""
        self._client.close()

    @staticmethod
    def _answer(answer: httpx.Response) -> Document:
        assert answer.is_success, f"{answer.request.method} {answer.request.url}: {answer.status_code} {answer.text}"
        return answer.json()
