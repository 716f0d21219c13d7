"""How far queries have read: counts, rates and the time left, from the reports of executors and the ends of topics."""

from __future__ import annotations

from dsms.coordinator.watcher.progress import Progress, ReadingRates
from dsms.placement.leases import ExecutorStatus, QueryStatus

STARTS = {"o1/0": 100, "o1/1": 0}


def said(first: int, second: int, batch: int = 50) -> dict[str, ExecutorStatus]:
    lane = QueryStatus(None, {"o1/0": first, "o1/1": second})
    return {"executor": ExecutorStatus("running", batch_records=batch, lanes={"q": lane})}


def test_progress_of_a_query_that_catches_up() -> None:
    pace = ReadingRates()
    first = pace.update(10.0, said(100, 0), {"o1/0": 600, "o1/1": 500}, STARTS)["q"]
    assert (first.read, first.unread, first.percent, first.text) == (0, 1000, 0, "catching up 0 %")
    assert first.seconds_left is None, "nothing is known of its rate"
    second = pace.update(12.0, said(300, 200), {"o1/0": 650, "o1/1": 550}, STARTS)["q"]
    assert (second.read, second.unread, second.rate, second.catch_up_rate) == (400, 700, 200.0, 150.0)
    assert (second.percent, second.text) == (36, "catching up 36 %")
    assert second.document() == {
        "read": 400,
        "unread": 700,
        "percent": 36,
        "catching_up": True,
        "records_per_second": 200.0,
        "seconds_left": 4.7,
    }


def test_a_query_whose_next_batch_holds_all_is_running() -> None:
    progress = ReadingRates().update(0.0, said(600, 480), {"o1/0": 600, "o1/1": 500}, STARTS)["q"]
    assert (progress.unread, progress.text, progress.document()["seconds_left"]) == (20, "running", None)


def test_only_the_last_seconds_count_for_the_rate() -> None:
    pace, ends = ReadingRates(), {"o1/0": 1100, "o1/1": 1000}
    for second in range(30):
        progress = pace.update(float(second), said(100 + min(second, 5) * 100, 0), ends, STARTS)["q"]
    assert (progress.rate, progress.catch_up_rate, progress.seconds_left) == (0.0, 0.0, None)


def test_query_that_falls_behind_has_no_time_left() -> None:
    pace = ReadingRates()
    pace.update(0.0, said(100, 0), {"o1/0": 200, "o1/1": 0}, STARTS)
    progress = pace.update(1.0, said(150, 0), {"o1/0": 400, "o1/1": 0}, STARTS)["q"]
    assert (progress.rate, progress.catch_up_rate, progress.seconds_left, progress.behind) == (50.0, -150.0, None, True)


def test_progress_without_records_is_complete() -> None:
    assert (Progress(0, 0).percent, Progress(0, 0).text) == (100, "running")
