"""A mark for new fields of operators. State is stored under names derived from operators, which must not change."""

from __future__ import annotations

#: Metadata of a dataclass field that was added later: it is part of the name only if it differs from its default.
ADDED_LATER = "added later"
