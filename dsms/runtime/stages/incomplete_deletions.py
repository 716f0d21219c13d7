"""Refuses deletions whose record key lacks a column of a stream's key, because they do not identify a row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from dsms.planner.physical.dataflow import Dataflow, without_forget
from dsms.planner.physical.lane import Lane
from dsms.runtime.stages.absent_columns import AbsentKeyColumns
from dsms.runtime.stages.lane_step import StageStep
from operators.core.delta import ORDER, SOURCE_SHIFT, Delta
from operators.core.operator import FAULT
from operators.streams.bag_tagger import BagTagger
from operators.streams.stamp import Stamp
from operators.streams.tagger import Tagger


def without_incomplete_deletions(lane: Lane, leaf: int, step: StageStep, absent: AbsentKeyColumns) -> StageStep:
    """Removes deletions whose record key lacks a column of the stream's key from the output of the source stage, and
    adds them to the faults of the stream's tagger. A missing column is decoded as NULL, so such a deletion would end
    the row whose key is NULL."""
    sent, faults = dict(step.sent), dict(step.faults)
    for exchange in step.sent if absent else ():
        reasons = [(at, dict(_reasons(tagger, leaf, absent))) for at, tagger in _taggers(lane.flow, exchange)]
        bad = set.intersection(*(set(each) for _, each in reasons)) if reasons else set()
        if not bad:
            continue
        delta = step.sent[exchange]
        incomplete = pl.col(ORDER).is_in(list(bad))
        for at, each in reasons:
            reason = pl.col(ORDER).replace_strict(each, return_dtype=pl.String).alias(FAULT)
            faults[at] = delta.frame.filter(incomplete).select(ORDER, reason)
        sent[exchange] = Delta(delta.frame.filter(~incomplete))
    return replace(step, sent=sent, faults=faults)


def _taggers(flow: Dataflow, exchange: int) -> list[tuple[int, Tagger | BagTagger]]:
    """The taggers, with their vertices, that get the records of an exchange, directly or behind the checks of the
    source's constraints. If a stream without a key gets them, too, nothing may be removed: []."""
    taggers: list[tuple[int, Tagger | BagTagger]] = []
    readers = [at for at, vertex in enumerate(flow.vertices) if vertex.inputs and vertex.inputs[0].exchange == exchange]
    for at in readers:  # grows while it is read
        operator = without_forget(flow.vertices[at].operator)
        if isinstance(operator, Stamp):
            return []
        if isinstance(operator, Tagger | BagTagger):
            taggers.append((at, operator))
        else:
            readers += flow.readers[at]
    return taggers


def _reasons(tagger: Tagger | BagTagger, leaf: int, absent: AbsentKeyColumns) -> Iterator[tuple[int, str]]:
    for columns, orders in absent.items():
        lacking = [key for key in tagger.keys if key in columns]
        if lacking:
            names = ", ".join(f'"{key}"' for key in lacking)
            reason = f"a deletion whose record key lacks {names}, a part of the stream's key"
            yield from ((order + (leaf << SOURCE_SHIFT), reason) for order in orders)
