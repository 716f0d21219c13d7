"""View matching: a new query answered over one that runs and contains it (SyncSQL section 5)."""

from dsms.optimizer.view_matching.match import Answer, answered_over, marks

__all__ = ["Answer", "answered_over", "marks"]
