"""The client as commands use it: what fails is told at once, and tried again by who sees it."""

from __future__ import annotations

from dsms.client import Client


class ApiClient(Client):
    """One coordinator, asked once."""

    def __init__(self, url: str, token: str | None = None) -> None:
        """`token` is by default that of the environment, `DSMS_TOKEN`."""
        super().__init__(url, token, attempts=1)
