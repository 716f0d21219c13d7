"""Creation of link topics, the internal topics between the parts of a query that several fragments run."""

from __future__ import annotations

from connectors.kafka.client.topics import KEPT, ensure_topic
from dsms.planner.physical.fragment_plan import FragmentPlan
from dsms.runtime.settings import ExecutorSettings


def ensure_links(settings: ExecutorSettings, plan: FragmentPlan, before: FragmentPlan | None = None) -> None:
    """Creates the topics of those links of a plan that the plan before it did not have, unless another executor has
    created them. Their records are kept for ever, like the source logs they are derived from: an executor that has lost
    its state reads them again."""
    for topic in sorted(plan.links.keys() - (before.links.keys() if before else ())):
        ensure_topic(settings.kafka.admin(), topic, plan.links[topic], KEPT)
