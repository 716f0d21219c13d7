"""State is stored under names that are derived from operators; fields that are added to these must not change them."""

from __future__ import annotations

#: In the metadata of a field of a dataclass: it takes part in the name only where it differs from its default.
ADDED_LATER = "added later"
