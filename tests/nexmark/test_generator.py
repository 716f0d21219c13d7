"""NEXMark's generator: an event does not depend on the number of events; they have the benchmark's distributions."""

from __future__ import annotations

import polars as pl
import pytest

from benchmarks.nexmark.answers import decoded
from benchmarks.nexmark.generator import BLOCK, KINDS, SIZES, Events
from benchmarks.nexmark.load import final_ms
from benchmarks.nexmark.questions import QUESTIONS
from benchmarks.nexmark.reference import Reference, verify
from benchmarks.nexmark.streams import STREAMS
from connectors.formats import AvroEncoder
from operators.core.errors import InternalError


@pytest.mark.parametrize("kind", KINDS)
def test_fewer_events_are_the_first_of_more(kind: str) -> None:
    few, many = Events(1_234).frame(kind), Events(BLOCK + 777).frame(kind)
    assert many.head(few.height).equals(few)
    assert Events(1_234, seed=8).frame(kind).equals(few) is False


def test_one_person_three_auctions_and_forty_six_bids_in_fifty() -> None:
    assert [Events(BLOCK + 50).frame(kind).height for kind in KINDS] == [2_001, 6_003, 92_046]


@pytest.mark.parametrize("kind", KINDS)
def test_instants_ascend_and_end(kind: str) -> None:
    events = Events(20_000)
    instants = events.frame(kind)["dateTime"]
    assert instants.is_sorted()
    assert instants.max() < events.end_ms < final_ms(events)


def test_shares_of_hot_bidders_sellers_and_channels() -> None:
    bids, auctions = Events(BLOCK).frame("bid"), Events(BLOCK).frame("auction")
    assert bids["channel"].is_in(["Google", "Facebook", "Baidu", "Apple"]).mean() == pytest.approx(0.5, abs=0.01)
    assert (bids["bidder"] % 100 == 1).mean() == pytest.approx(0.75 + 0.25 / 100, abs=0.01)
    assert (auctions["seller"] % 100 == 0).mean() == pytest.approx(0.75 + 0.25 / 100, abs=0.02)
    assert bids["price"].min() >= 100 and bids["price"].max() <= 10**8


@pytest.mark.parametrize("kind", KINDS)
def test_sizes(kind: str) -> None:
    frame = Events(BLOCK).frame(kind)
    counted = frame.drop("channel", "url", strict=False)
    texts = counted.select(pl.sum_horizontal(pl.col(pl.String).str.len_bytes())).to_series()
    numbers = 8 * sum(dtype == pl.Int64 for dtype in frame.schema.values())
    numbers -= {"person": 8, "auction": 8, "bid": 0}[kind]
    assert (texts + numbers).mean() == pytest.approx(SIZES[kind], rel=0.02)


@pytest.mark.parametrize("name", STREAMS)
def test_records_are_the_rows(name: str) -> None:
    stream, events = STREAMS[name], Events(500)
    values = AvroEncoder(stream.stored(), 3).encode(pl.concat(stream.chunks(events))).to_list()
    verify(decoded(values, stream.writer(), 5, stream.rows(events)), stream.rows(events), name)


def test_wrong_answers_are_detected() -> None:
    right = Reference(Events(1_000)).answer(QUESTIONS["q17"])
    verify(right.reverse(), right, "q17")
    for wrong in (
        right.head(-1),
        pl.concat([right, right.head(1)]),
        right.with_columns(pl.col("avg_price") * 1.000001),
    ):
        with pytest.raises(InternalError, match="q17"):
            verify(wrong, right, "q17")
