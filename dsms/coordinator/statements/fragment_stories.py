"""Finds the story of a fragment as a principal may see it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from connectors.alarms import Alarms
from dsms.coordinator.catalog.lookup import Document, UnknownName
from dsms.coordinator.watcher.executors import ExecutorStatuses, living_executors
from dsms.introspection.fragment_story import read_stories, readable_story, story_documents
from dsms.model.catalog import Catalog
from dsms.model.principal import Principal


class Stories(ExecutorStatuses, Protocol):
    """The stories that executors publish; `ClusterState` keeps them in Redis."""

    def stories(self, fragment: str) -> dict[str, bytes]:
        """The stories of a fragment, encoded, by executor."""
        ...


@dataclass(frozen=True)
class StorySource:
    """Where stories are read, and the alarms for invalid ones."""

    cluster: Stories
    alarms: Alarms


class UnknownFragment(UnknownName):
    """No fragment has this name, or the caller may read none of its queries.

    >>> str(UnknownFragment("fragment", "7", ["1", "0"]))
    'fragment "7" not found; have: 0, 1'
    """

    def with_readable_names(self, may_read: Callable[[str], bool]) -> UnknownFragment:
        """The same error: it lists only fragments of which the caller may read a query."""
        return self


def story_of(fragment: str, last: int, catalog: Catalog, principal: Principal, source: StorySource) -> list[Document]:
    """The last entries of the story of a fragment, oldest first. Raises UnknownFragment."""
    known = _fragments(catalog, principal, source)
    if fragment not in known:
        raise UnknownFragment("fragment", fragment, known)
    stories = read_stories(source.cluster.stories(fragment), fragment, source.alarms)
    if principal.restricted:
        stories = {executor: readable_story(story, principal.may_read) for executor, story in stories.items()}
    return story_documents(stories, last)


def _fragments(catalog: Catalog, principal: Principal, source: StorySource) -> set[str]:
    """The fragments of the queries that the principal may read; without restrictions, also those that executors run
    without queries."""
    readable = (query for query in catalog.queries() if principal.may_read(query.name))
    known = {fragment for query in readable for fragment in query.fragments}
    if not principal.restricted:
        known.update(*(status.fragments for status in living_executors(source.cluster, source.alarms).values()))
    return known
