"""What a token permits beside its role, whoever issued it."""

from __future__ import annotations

from typing import Annotated

import msgspec

from dsms.model.principal import Allowance, Rules


class Permission(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which objects and topics a token is for, as patterns (see `Rules`), and how much it may ask for. With any of the
    patterns, those that are left out allow nothing; without all of them, it is for everything."""

    read: tuple[str, ...] | None = None
    write: tuple[str, ...] | None = None
    read_topics: tuple[str, ...] | None = None
    write_topics: tuple[str, ...] | None = None
    calls_per_second: Annotated[float, msgspec.Meta(gt=0)] | None = None
    queries: Annotated[int, msgspec.Meta(ge=0)] | None = None
    streams: Annotated[int, msgspec.Meta(ge=0)] | None = None

    @property
    def rules(self) -> Rules | None:
        """Which objects and topics it is for; None for all.

        >>> Permission().rules is None, Permission(read=("a.*",)).rules.write("a.b")
        (True, False)
        """
        patterns = (self.read, self.write, self.read_topics, self.write_topics)
        return None if patterns == (None,) * 4 else Rules.of(*(given or () for given in patterns))

    @property
    def allowance(self) -> Allowance:
        """How much it may ask for."""
        return Allowance(self.calls_per_second, self.queries, self.streams)
