"""View matching: computes a new query from the rows of a running one that contains it (SyncSQL section 5)."""

from dsms.planner.optimizer.view_matching.match import Rewrite, computed_from_views, match_digests
from dsms.planner.optimizer.view_matching.merge import merged

__all__ = ["Rewrite", "computed_from_views", "match_digests", "merged"]
