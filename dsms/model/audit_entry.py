"""An entry of the audit log."""

from __future__ import annotations

from typing import Literal

import msgspec

Event = Literal["begun", "done", "failed", "refused"]


class AuditEntry(msgspec.Struct, frozen=True):
    """An entry: the time `at` (epoch milliseconds), the name and the role of the caller's token (`who`, `role`), the id
    of the call (`request`), what was requested (`what`) and what became of it (`event`, `outcome`, `seconds`). Secrets
    in `what` and `outcome` are masked."""

    at: int
    who: str
    role: str
    request: str
    event: Event
    what: str
    outcome: str = ""
    seconds: float = 0.0
    #: The number of refused calls before this one that were counted here and got no entry of their own.
    more: int = 0
