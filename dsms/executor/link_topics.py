"""The topics of links, made by the executors that use them."""

from __future__ import annotations

from connectors.kafka.topics import KEPT, ensure_topic
from dsms.physical.fragment_plan import FragmentPlan
from dsms.runtime.settings import ExecutorSettings


def ensure_links(settings: ExecutorSettings, plan: FragmentPlan, before: FragmentPlan | None = None) -> None:
    """Makes the topics of the links of a plan that the plan before it did not have, unless another executor has made
    them. They are kept for ever, like the logs that they follow from: an executor that has lost its state reads them
    again."""
    for topic in plan.links.keys() - (before.links.keys() if before else ()):
        ensure_topic(settings.kafka.admin(), topic, plan.links[topic], KEPT)
