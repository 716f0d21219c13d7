"""The permissions of a token within its role, for tokens of the token file and of OIDC issuers alike."""

from __future__ import annotations

from typing import Annotated

import msgspec

from dsms.model.principal import AccessRules, TokenLimits


class Permission(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The objects and topics to which a token gives access, as patterns (see `AccessRules`), and its limits. If one
    of the four fields of patterns is given, a missing one allows nothing. If none is, everything is allowed.
    """

    read: tuple[str, ...] | None = None
    write: tuple[str, ...] | None = None
    read_topics: tuple[str, ...] | None = None
    write_topics: tuple[str, ...] | None = None
    calls_per_second: Annotated[float, msgspec.Meta(gt=0)] | None = None
    #: The most queries that it may own, and the most feeds of results that it may have open at once.
    queries: Annotated[int, msgspec.Meta(ge=0)] | None = None
    streams: Annotated[int, msgspec.Meta(ge=0)] | None = None

    @property
    def rules(self) -> AccessRules | None:
        """The objects and topics to which it gives access; None for all.

        >>> Permission().rules is None, Permission(read=("a.*",)).rules.write("a.b")
        (True, False)
        """
        patterns = (self.read, self.write, self.read_topics, self.write_topics)
        return None if patterns == (None,) * 4 else AccessRules.of(*(given or () for given in patterns))

    @property
    def limits(self) -> TokenLimits:
        """The limits of the token."""
        return TokenLimits(self.calls_per_second, self.queries, self.streams)
