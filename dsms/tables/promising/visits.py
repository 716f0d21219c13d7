"""The answer to a SELECT with a preference: over promising regions first, and over more while time is left."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TypeVar, cast

import numpy as np
import polars as pl
import pyarrow as pa
from sqlglot import exp

from dsms.model.catalog import Catalog
from dsms.model.statements import Preference
from dsms.tables.one_time_query import OneTimeQuery, OneTimeQueryWithRows, Relation
from dsms.tables.promising.chosen_summaries import ChosenSummary, chosen_summaries
from dsms.tables.promising.regions import Regions
from operators.core.distinct_type import stored_schema
from operators.core.errors import UserError
from operators.summaries.cells import TUPLES
from operators.summaries.count_sketch import value_hashes

Answer = TypeVar("Answer")
#: The least number of tuples in the first part, and the factor by which each further part is larger.
_FIRST, _GROWTH = 1_000, 2


def _any_size(_: str, __: int) -> None:
    """Accepts streams of any size."""


@dataclass(frozen=True)
class Coverage:
    """How much of a stream an answer covers: tuples and regions of those that the summary has. It has only tuples of
    closed zones, with instants from `start` to before `end`; both are None while no zone is closed."""

    stream: str
    tuples: int
    of_tuples: int
    regions: int
    of_regions: int
    start: int | None = None
    end: int | None = None

    def __str__(self) -> str:
        if self.start is None:
            return f'"{self.stream}": no region is complete yet, so all of the stream is left out'
        seen = f"{self.tuples} of {self.of_tuples} tuples in {self.regions} of {self.of_regions} regions"
        left_out = f"no region has, and so left out are, instants before {self.start} and from {self.end} on"
        return f'"{self.stream}": {seen}; {left_out}'


@dataclass(frozen=True)
class PromisingSelect:
    """A SELECT, its preference, and the chosen summaries of the streams that the preference names."""

    asked: OneTimeQuery
    preference: Preference
    summaries: Mapping[str, ChosenSummary]

    @property
    def objects(self) -> dict[str, str]:
        """The objects that are read, by their names in the text: summaries in place of their streams."""
        named = self.asked.objects.items()
        return {alias: self.summaries[name].summary if name in self.summaries else name for alias, name in named}

    @property
    def read_separately(self) -> frozenset[str]:
        """The objects that are each read at their own last instant: the summaries. Their streams are read in parts
        anyway, and a summary cannot be read at an instant before its last change."""
        return frozenset(chosen.summary for chosen in self.summaries.values())

    def answered(
        self,
        relation: Relation,
        now: int | None,
        evaluate: Callable[[OneTimeQueryWithRows], Answer],
        clock: Callable[[], float] = time.monotonic,
        check_size: Callable[[str, int], None] = _any_size,
    ) -> tuple[Answer, list[Coverage]]:
        """The answer over the largest part of the input that the time budget allows, and the size of that part.

        An answer is the result of the whole SELECT over a part of each stream. Each part has about twice the tuples of
        the one before and is expected to take twice its time; the first one is always evaluated. `check_size` is called
        with the bytes of each stream's part as they grow, and raises if they are too many.

        Raises UserError if a summary has replaced another one and the relation at `now` is still that of the other.
        """
        self._check_replaced(now)
        parts, begun = self._parts(relation, now, check_size), clock()
        while True:
            started = clock()
            part = next(parts)
            answer = evaluate(part.asked)
            ended, budget_s = clock(), self.preference.budget_s
            late = budget_s is not None and ended - begun + _GROWTH * (ended - started) > budget_s
            if part.last or late:
                return answer, part.seen

    def _check_replaced(self, now: int | None) -> None:
        for chosen in self.summaries.values():
            if chosen.since is not None and (now is None or now < chosen.since):
                hint = "try again when the stream has passed that instant, or leave out WITH PREFERENCE"
                raise UserError(f'summary "{chosen.summary}" is valid only from instant {chosen.since} on', hint=hint)

    def _parts(self, relation: Relation, now: int | None, check_size: Callable[[str, int], None]) -> Iterator[_Part]:
        order = VisitOrder(self, relation, now, check_size)
        others = [name for name in dict.fromkeys(self.asked.objects.values()) if name not in self.summaries]
        rows = {name: relation(name) for name in others}
        for count, last in order.counts(everything=self.preference.budget_s is None):
            seen, known = [], dict(rows)
            for name in self.summaries:
                known[name], visited = order.visited(name, count)
                seen.append(visited)
            yield _Part(self.asked.over(known.__getitem__), seen, last)


def promising_select(
    query: exp.Expr,
    preference: Preference,
    asked: OneTimeQuery,
    catalog: Catalog,
    may_read: Callable[[str], bool] = lambda _: True,
) -> PromisingSelect:
    """A SELECT with its preference, by summaries that may be read. Raises SqlError if it does not fit."""
    return PromisingSelect(asked, preference, chosen_summaries(query, preference, catalog, may_read))


@dataclass(frozen=True)
class _Part:
    asked: OneTimeQueryWithRows
    seen: list[Coverage]
    last: bool


class VisitOrder:
    """The regions of all streams in the order in which they are visited."""

    def __init__(
        self,
        promising: PromisingSelect,
        relation: Relation,
        now: int | None,
        check_size: Callable[[str, int], None] = _any_size,
    ) -> None:
        self._promising, preference = promising, promising.preference
        self._check_size = check_size
        window = preference.window
        after = None if window is None or now is None else now - window
        self._regions = {
            name: Regions(cast(pl.DataFrame, pl.from_arrow(relation(chosen.summary))), chosen.function.buckets, after)
            for name, chosen in promising.summaries.items()
        }
        self._names = list(self._regions)

    @cached_property
    def _visits(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For each visit the number of the stream, the number of the region in it, and the number of tuples."""
        streams = np.concatenate([np.full(each.regions.height, at) for at, each in enumerate(self._all)])
        places = np.concatenate([np.arange(each.regions.height) for each in self._all])
        tuples = np.concatenate([each.regions[TUPLES].to_numpy() for each in self._all])
        order = np.argsort(np.concatenate([self._rank(name) for name in self._names]), kind="stable")
        return streams[order], places[order], tuples[order]

    @property
    def _all(self) -> list[Regions]:
        return [self._regions[name] for name in self._names]

    @property
    def sizes(self) -> np.ndarray:
        """The number of tuples of each visit, in the order of the visits."""
        return self._visits[2]

    def counts(self, *, everything: bool) -> Iterator[tuple[int, bool]]:
        """The number of visits up to the end of each part, and whether the part is the last one."""
        tuples = np.cumsum(self.sizes)
        total, most = len(tuples), _FIRST
        while not everything and total and tuples[-1] > most:
            yield int(np.searchsorted(tuples, most)) + 1, False
            most *= _GROWTH
        yield total, True

    def visited(self, name: str, count: int) -> tuple[pa.Table, Coverage]:
        """The tuples of a stream in the first `count` visits."""
        streams, places, tuples = self._visits
        chosen, regions, own = self._promising.summaries[name], self._regions[name], streams == self._names.index(name)
        here = np.flatnonzero(own[:count])
        shown = stored_schema(chosen.columns)
        rows = shown.empty_table()
        if len(here):
            decoded = regions.tuples(places[here], partial(self._check_size, name))
            rows = decoded.select(shown.names).to_arrow().cast(shown)
        outside_window = int(tuples[here].sum()) - rows.num_rows
        of_tuples = int(tuples[own].sum()) - outside_window
        seen = Coverage(name, rows.num_rows, of_tuples, len(here), int(own.sum()), *regions.span())
        return rows.cast(chosen.columns), seen

    def _rank(self, name: str) -> np.ndarray:
        """The ranks of the regions of a stream; the least one is visited first."""
        chosen, regions, preference = self._promising.summaries[name], self._regions[name], self._promising.preference
        faded = regions.faded(preference.fade)
        amounts = regions.amounts() if chosen.by_amount else np.ones(len(faded))
        hashes = None if chosen.searched_values is None else value_hashes(chosen.searched_values)
        possible = np.ones(len(faded), bool) if hashes is None else regions.may_hold(hashes)
        if preference.direction == "weighted":
            # regions are taken as wholes, so a chance by size would count the size twice
            weights = np.abs(amounts) * faded
            ranks = -np.log(regions.random_numbers()) / np.maximum(weights, 1e-300)
            return np.where(possible, ranks, np.inf)
        meets = np.ones(len(faded))
        for other, others in self._regions.items():
            if other != name and others.buckets == regions.buckets:
                meets = meets * regions.join_partners(others.bucket_sketches(preference.fade))
        if preference.direction == "asc":
            ranks = regions.mean_frequency() * amounts / faded
            return np.where(possible & (meets > 0), ranks, np.inf)
        promise = regions.mean_frequency() if hashes is None else regions.fraction_with(hashes)
        return np.asarray(-promise * meets * amounts * faded)
