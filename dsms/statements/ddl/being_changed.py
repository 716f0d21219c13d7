"""Objects that another statement, or the system, is changing at the moment."""

from __future__ import annotations

from collections.abc import Iterable

from dsms.model import statements as st
from dsms.model.objects import Object, Query, Source
from dsms.registration.environment import Environment, names_for_caller


def check_settled(items: Iterable[Object], name: st.Name, changed: str, environment: Environment) -> None:
    """Raises SqlError while one of the objects is being changed, because that change knows the objects as they are.
    `changed` says what cannot be done to the object `name`."""
    changing = [item for item in items if _is_changing(item)]
    if changing:
        why = f"{names_for_caller(changing, environment)} is being changed by another statement"
        raise name.place.error(f'"{name.text}" cannot be {changed} yet: {why}', "try again")


def _is_changing(item: Object) -> bool:
    if isinstance(item, Source):
        return any(each.adding_partitions_since is not None or each.skipping is not None for each in item.versions)
    return isinstance(item, Query) and item.halted
