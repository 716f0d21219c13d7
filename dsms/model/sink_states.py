"""The state of a sink that the cluster runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: `failed`: somebody has to act; it is still tried again.
SinkStateName = Literal["starting", "running", "retrying", "failed"]


@dataclass(frozen=True)
class SinkState:
    """The state with its reason, the position in the result up to which the target has the changes, and when the target
    last had all of them that had arrived, in seconds since 1970."""

    name: SinkStateName = "starting"
    reason: str = ""
    position: str | None = None
    at: float | None = None
