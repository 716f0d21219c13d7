"""`dsms status` lists what runs and what is wrong, and leaves out what is as it should be."""

from __future__ import annotations

from dsms.cli.cluster_summary import summary

_WELL = {"state": "running", "epoch": 7, "fragments": {"0": "running"}, "redis_bytes": 1_500, "disk_bytes": 0}
_ILL = {
    "state": "running",
    "epoch": 3,
    "fragments": {"2": "running", "1": "recovering: reading 12 runs"},
    "reason": "no memory",
    "waits": {"orders": "schema 7 is unknown"},
    "checkpoints": {"1": {"error": "the store does not answer"}, "2": {"error": ""}},
}


def test_a_cluster_in_which_all_is_well() -> None:
    assert summary({"executors": {"e1": _WELL}, "lag": {"q": 0}, "alarms": []}) == {
        "executors": [{"executor": "e1", "state": "running", "epoch": 7, "in Redis": "1.5 kB", "on disk": "0 bytes"}],
        "fragments": [{"fragment": "0", "executor": "e1", "state": "running"}],
    }


def test_what_is_wrong_is_listed_with_its_reason() -> None:
    found = summary({"executors": {"e2": _ILL}, "alarms": [{"place": "t", "reason": "too large"}]})
    assert found["executors"][0]["reason"] == "no memory"
    assert found["fragments"] == [
        {"fragment": "1", "executor": "e2", "state": "recovering: reading 12 runs"},
        {"fragment": "2", "executor": "e2", "state": "running"},
    ]
    assert found["records that wait"] == [{"source": "orders", "executor": "e2", "reason": "schema 7 is unknown"}]
    assert found["checkpoints that fail"] == [
        {"fragment": "1", "executor": "e2", "reason": "the store does not answer"}
    ]
    assert found["alarms"] == [{"place": "t", "reason": "too large"}]


def test_queries_are_listed_by_their_unread_records() -> None:
    progress = {"b": {"unread": 9, "percent": 40, "records_per_second": 3.0, "seconds_left": 3, "read": 6}}
    assert summary({"lag": {"a": 0, "c": 2, "b": 9}, "progress": progress})["queries with unread records"] == [
        {"query": "b", "unread": 9, "percent": 40, "records/s": 3.0, "seconds left": 3},
        {"query": "c", "unread": 2},
    ]
