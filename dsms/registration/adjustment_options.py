"""Checks the options that let the system adjust a query while it runs: MAX_ERROR, MAX_LOSS and others for load
shedding, and MEMORY, which bounds window sizes or sketches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from dsms.model import logical
from dsms.model import statements as st
from dsms.model.objects import Query, ValuePreference
from dsms.planner.optimizer.monotone_shedding import preferred_stream
from dsms.planner.optimizer.sketches import LARGEST_ERROR, least_error, memory_of
from dsms.planner.optimizer.window_ranges import ranged
from dsms.sql.parser.table_names import names_of
from operators.core.errors import SqlError, UserError
from operators.kernels.near_values import MIN_ERROR

_BOUNDS = ("max_error", "max_loss")
_SHEDDING_OPTIONS = (*_BOUNDS, "deadline", "error_columns", "shed_where")
#: The options that have no effect without estimates.
_ESTIMATE_OPTIONS = ("error_columns", "shed_where")


def check_shedding_options(statement: st.ContinuousQuery, settings: Mapping[str, Any]) -> None:
    """Raises SqlError for options of load shedding that the statement does not allow or that would have no effect."""
    given = [clause for clause in statement.clauses if clause.name in _SHEDDING_OPTIONS]
    if given and statement.kind == "view":
        why = "readers of a view expect exact results"
        raise given[0].place.error(f"{given[0].name.upper()} needs a query: {why}", "use CREATE QUERY …")
    if given and not any(bound in settings for bound in _BOUNDS):
        bounds = "MAX_ERROR" if given[0].name in _ESTIMATE_OPTIONS else "MAX_ERROR or MAX_LOSS"
        raise given[0].place.error(f"{given[0].name.upper()} needs {bounds}: without it no input is shed")
    _check_preference(statement, settings)
    if "max_loss" in settings:
        _check_max_loss(statement, settings)
    others = [clause for clause in given if clause.name != "max_error"]
    if others and "memory" in settings:
        raise others[0].place.error(
            f"{others[0].name.upper()} cannot be combined with MEMORY: with MEMORY no input is shed"
        )


def _check_max_loss(statement: st.ContinuousQuery, settings: Mapping[str, Any]) -> None:
    """Raises SqlError for options that cannot be combined with MAX_LOSS."""
    clauses = {clause.name: clause for clause in statement.clauses}
    if "max_error" in settings:
        why = "the one is for estimates of COUNT, SUM and AVG, the other for queries without aggregates"
        raise clauses["max_loss"].place.error(f"MAX_LOSS cannot be combined with MAX_ERROR: {why}", "omit one of them")
    if "memory" in settings:
        raise clauses["memory"].place.error("MEMORY cannot be combined with MAX_LOSS", "omit one of them")
    for name in (name for name in _ESTIMATE_OPTIONS if name in settings):
        why = "with MAX_LOSS, results are not estimates"
        raise clauses[name].place.error(f"{name.upper()} needs MAX_ERROR: {why}", f"omit {name.upper()}")


def _check_preference(statement: st.ContinuousQuery, settings: Mapping[str, Any]) -> None:
    """Raises SqlError for a preference that does not say what is shed."""
    if (preference := statement.preference) is None:
        return
    place = preference.estimates[0].place
    if "max_loss" not in settings:
        hint = "add WITH (max_loss = …) after the name of the query"
        raise place.error("WITH PREFERENCE in a continuous query needs MAX_LOSS: without it no input is shed", hint)
    if len(preference.estimates) > 1 or preference.estimates[0].by_amount:
        raise place.error("WITH PREFERENCE in a continuous query takes one COUNT(column)")
    if preference.fade != 1.0 or preference.window is not None or preference.budget_s is not None:
        why = "its recent input and its deadline determine what is kept"
        raise place.error(f"FADE FACTOR, WINDOW and BUDGET are not supported in a continuous query: {why}", "omit them")


def check_preferred_column(statement: st.ContinuousQuery, node: logical.Node) -> None:
    """Raises SqlError unless the preference of a query with this bound plan is for a column of its only stream."""
    if statement.preference is None:
        return
    estimate = statement.preference.estimates[0]
    try:
        stream = preferred_stream(node, estimate.column)
    except UserError as failure:
        raise estimate.place.error(failure.message, failure.hint) from failure
    names = names_of(stream, statement.select)
    if estimate.alias is not None and estimate.alias.casefold() not in map(str.casefold, names):
        hint = f"write COUNT({estimate.column}), or one of: {', '.join(dict.fromkeys(names))}"
        raise estimate.place.error(f'WITH PREFERENCE: "{estimate.alias}" is not the stream of the query', hint)


def value_preference(statement: st.ContinuousQuery) -> ValuePreference | None:
    """The preference of a statement, checked before; None if all values are alike to it."""
    if statement.preference is None or statement.preference.direction == "weighted":
        return None
    return statement.preference.direction, statement.preference.estimates[0].column


def with_memory(statement: st.ContinuousQuery, draft: Query, node: logical.Node) -> Query:
    """The query, with the error of its sketches if it has both MEMORY and MAX_ERROR. Raises SqlError if the query has
    MEMORY but nothing whose size it could determine, or if MEMORY is too small."""
    clause = next((clause for clause in statement.clauses if clause.name == "memory"), None)
    if clause is None or draft.memory is None:
        return draft
    if statement.kind == "view":
        why = "readers of a view expect exact results"
        raise clause.place.error(f"MEMORY needs a query: {why}", "use CREATE QUERY …")
    has_window_ranges = ranged(node)
    if has_window_ranges and draft.max_error is not None:
        hint = "omit MAX_ERROR: the sizes of such a window are chosen by MEMORY alone"
        raise clause.place.error("MAX_ERROR cannot be combined with a window with a range of sizes", hint)
    if draft.max_error is not None:
        return _with_sketches(draft, node, draft.memory, draft.max_error, clause.place)
    if not has_window_ranges:
        hint = "write one such as [Range Min 5 Minutes Max 1 Hour], or add MAX_ERROR; STATE_MEMORY moves state to disk"
        raise clause.place.error("MEMORY needs a window with a range of sizes", hint)
    return draft


def _with_sketches(draft: Query, node: logical.Node, memory: int, max_error: float, place: st.TextLocation) -> Query:
    if max_error < MIN_ERROR:
        raise place.error(f"with MEMORY, MAX_ERROR must be at least {MIN_ERROR:g}")
    try:
        error = least_error(node, memory)
        if error is None or error > max_error:
            need = (
                f"MAX_ERROR {max_error:g} needs {memory_of(node, min(max_error, LARGEST_ERROR)):,} bytes for each group"
            )
            reached = "" if error is None else f"; with {memory:,} bytes the error is up to {error:g}"
            raise place.error(f"MEMORY is too small: {need}{reached}", "increase MEMORY or MAX_ERROR")
    except SqlError:
        raise
    except UserError as failure:
        raise place.error(failure.message, failure.hint) from failure
    return msgspec.structs.replace(draft, sketch_error=error)
