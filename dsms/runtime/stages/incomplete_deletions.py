"""Refuses deletions whose record key lacks a column of a stream's key, because they do not identify a row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from dsms.planner.physical.lane import Lane
from dsms.runtime.stages.absent_columns import AbsentKeyColumns
from dsms.runtime.stages.lane_step import StageStep
from operators.core.delta import ORDER, SOURCE_SHIFT, Delta
from operators.core.operator import FAULT
from operators.streams.tagger import Tagger


def without_incomplete_deletions(lane: Lane, leaf: int, step: StageStep, absent: AbsentKeyColumns) -> StageStep:
    """The output of the source stage without such deletions; they become rows in fault of the stream's tagger. A
    missing column is decoded as NULL, so the deletion would remove the row whose key is NULL."""
    sent, faults = dict(step.sent), dict(step.faults)
    for number, vertex, tagger in _taggers(lane, leaf) if absent else ():
        delta = step.sent.get(number)
        reasons = dict(_reasons(tagger, leaf, absent))
        if delta is None or not reasons:
            continue
        bad = pl.col(ORDER).is_in(list(reasons))
        refused = delta.frame.filter(bad).select(
            ORDER, pl.col(ORDER).replace_strict(reasons, return_dtype=pl.String).alias(FAULT)
        )
        sent[number], faults[vertex] = Delta(delta.frame.filter(~bad)), refused
    return replace(step, sent=sent, faults=faults)


def _taggers(lane: Lane, leaf: int) -> Iterator[tuple[int, int, Tagger]]:
    """The exchanges from a source to a tagger, each with the tagger's vertex and the tagger."""
    for at, vertex in enumerate(lane.flow.vertices):
        for feed in vertex.inputs if isinstance(vertex.operator, Tagger) else ():
            if feed.exchange is not None and feed.vertex == lane.flow.leaf(leaf):
                yield feed.exchange, at, vertex.operator


def _reasons(tagger: Tagger, leaf: int, absent: AbsentKeyColumns) -> Iterator[tuple[int, str]]:
    for columns, orders in absent.items():
        lacking = [key for key in tagger.keys if key in columns]
        if lacking:
            names = ", ".join(f'"{key}"' for key in lacking)
            reason = f"a deletion whose record key lacks {names}, a part of the stream's key"
            yield from ((order + (leaf << SOURCE_SHIFT), reason) for order in orders)
