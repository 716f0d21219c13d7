"""Finds the sinks that statements name."""

from __future__ import annotations

from dsms.model import statements as st
from dsms.model.catalog import Catalog
from dsms.model.sinks import KeptSink
from dsms.registration.environment import Environment
from operators.core.nearest import have


def readable_sinks(catalog: Catalog, environment: Environment) -> list[KeptSink]:
    """The sinks of results that the caller may read, oldest first."""
    return [sink for sink in catalog.sinks.values() if environment.may_read(catalog.result_of(sink).name)]


def sink_named(name: st.Name, catalog: Catalog, environment: Environment) -> KeptSink:
    """The sink of this name, case-insensitive. Raises SqlError, with the names of others, if there is none whose result
    the caller may read."""
    known = {sink.name.lower(): sink for sink in readable_sinks(catalog, environment)}
    if (sink := known.get(name.text.lower())) is None:
        names = tuple(each.name for each in known.values())
        raise name.place.error(
            f'sink "{name.text}" not found', have(name.text, names) if names else "there is none yet"
        )
    return sink
