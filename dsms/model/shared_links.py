"""Shared links: the links that divided queries on the same fragments have in common."""

from __future__ import annotations

import msgspec


class SharedLink(msgspec.Struct, frozen=True):
    """A link between the shards of divided queries. All of them compute the same elements for it, so one part in each
    fragment writes it for all. Each of these queries holds it, so it exists as long as one of them does."""

    #: The id of the link as a source. It begins with the id of the first query that held it.
    id: str
    #: The internal topic of the link.
    topic: str
    #: A name for what is computed for the link: equal for two queries if and only if all that the link contains is.
    digest: str

    @property
    def name(self) -> str:
        """A name for lists of operators and their queries.

        >>> SharedLink("o5~ab12v7", "t", "ab12").name
        'link o5~ab12v7'
        """
        return f"link {self.id}"
