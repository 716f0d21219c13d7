"""A mark for fields that were added to operators later. The name of stored state derives from the fields of its
operator and must stay the same."""

from __future__ import annotations

#: Metadata of a dataclass field that was added later: it is part of the name only if it differs from its default.
ADDED_LATER = "added later"
