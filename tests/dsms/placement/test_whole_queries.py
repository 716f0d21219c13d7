"""The state of a query that several fragments run, computed from the states of its parts."""

from __future__ import annotations

from dsms.placement.leases import RUNNING, ExecutorStatus, QueryStatus
from dsms.placement.whole_queries import with_whole_queries


def executor(lanes: dict[str, QueryStatus]) -> ExecutorStatus:
    return ExecutorStatus(RUNNING, lanes=lanes)


ONE = executor(
    {
        "o5@0of2": QueryStatus(40, {"o5~ab/0": 9}, reached={"o5~ab": 41}),
        "o5~ab.0": QueryStatus(50, {"o1/0": 7, "o1/2": 3}, reached={"o1": 50}),
        "o4": QueryStatus(3),
    }
)
TWO = executor(
    {
        "o5@1of2": QueryStatus(30, {"o5~ab/1": 4}),
        "o5~ab.1": QueryStatus(45, {"o1/1": 5}, "no memory", reached={"o1": 45}),
    }
)


def test_a_query_is_as_far_as_the_least_of_its_shares() -> None:
    statuses = with_whole_queries({"one": ONE, "two": TWO})
    assert statuses["one"].lanes.keys() == {"o4", "o5"} and not statuses["two"].lanes
    whole = statuses["one"].lanes["o5"]
    assert whole.frontier == 30 and whole.error == "no memory"
    assert whole.offsets == {"o1/0": 7, "o1/1": 5, "o1/2": 3} and whole.reached == {"o1": 50}


def test_a_query_of_which_a_share_runs_nowhere_has_no_state() -> None:
    assert with_whole_queries({"one": ONE})["one"].lanes.keys() == {"o4"}


def test_query_with_a_starting_shard_has_no_frontier() -> None:
    begins = executor({"o5@1of2": QueryStatus(None)})
    assert with_whole_queries({"one": ONE, "two": begins})["one"].lanes["o5"].frontier is None


def test_a_query_that_reads_a_shared_subplan_has_read_what_the_subplan_has_read() -> None:
    """The subplan o6~cd reads source o1 and the link of subplan o7~ef, which reads source o2."""
    reader = executor({"o8": QueryStatus(20, {"o6~cd/0": 4, "o3/0": 2}, reached={"o6~cd": 20, "o3": 25})})
    senders = executor(
        {
            "o6~cd.subplan": QueryStatus(30, {"o1/0": 7, "o7~ef/0": 3}, reached={"o1": 30}),
            "o7~ef.subplan": QueryStatus(31, {"o2/0": 9}, "no memory", reached={"o2": 31}, waits=("t/0/9: no schema",)),
        }
    )
    statuses = with_whole_queries({"one": reader, "two": senders})
    assert not statuses["two"].lanes
    whole = statuses["one"].lanes["o8"]
    assert whole.offsets == {"o1/0": 7, "o2/0": 9, "o3/0": 2}
    assert (whole.frontier, whole.error, whole.waits) == (20, "no memory", ("t/0/9: no schema",))
    assert whole.reached == {"o1": 30, "o2": 31, "o3": 25}
    assert with_whole_queries({"one": reader})["one"].lanes == {}, "nothing computes what it reads"


def test_a_report_counts_for_how_far_a_source_is_read() -> None:
    """The report of o8 has read further than the subplan o6~cd."""
    reader = executor({"o8": QueryStatus(20, {"o6~cd/0": 4}, reached={"o6~cd": 20})})
    senders = executor(
        {
            "o6~cd.subplan": QueryStatus(30, {"o1/0": 7}, reached={"o1": 30}),
            "o8~cd.faults": QueryStatus(35, {"o1/0": 8}, reached={"o1": 35}),
        }
    )
    whole = with_whole_queries({"one": reader, "two": senders})["one"].lanes["o8"]
    assert (whole.offsets, whole.reached) == ({"o1/0": 7}, {"o1": 35})


def test_a_subplan_that_a_divided_query_read_first_does_not_belong_to_it() -> None:
    shared = executor({"o5~cdv7.subplan": QueryStatus(3, {"o1/0": 1}, "no memory")})
    whole = with_whole_queries({"one": ONE, "two": TWO, "three": shared})["one"].lanes["o5"]
    assert whole.offsets["o1/0"] == 7


def test_a_divided_query_has_read_what_the_parts_of_its_shared_links_have_read() -> None:
    """Query o5 held the links o5~ab and o5~cd first; it was dropped. Query o7 reads o5~cd, whose parts read o5~ab."""
    one = executor(
        {
            "o7@0of2": QueryStatus(40, {"o5~cd/0": 9}),
            "o5~cd.0": QueryStatus(45, {"o5~ab/0": 3}),
            "o5~ab.0": QueryStatus(50, {"o1/0": 7}, reached={"o1": 50}),
            "o7~ab.0.faults": QueryStatus(51, {"o1/0": 8}, reached={"o1": 51}),
        }
    )
    two = executor(
        {
            "o7@1of2": QueryStatus(30, {"o5~cd/1": 4}),
            "o5~cd.1": QueryStatus(45, {"o5~ab/1": 3}),
            "o5~ab.1": QueryStatus(45, {"o1/1": 5}, "no memory", reached={"o1": 45}),
            "o6~ef.1": QueryStatus(45, {"o1/3": 5}, "of another query"),
        }
    )
    statuses = with_whole_queries({"one": one, "two": two})
    assert statuses["one"].lanes.keys() == {"o7"} and not statuses["two"].lanes
    whole = statuses["one"].lanes["o7"]
    assert (whole.frontier, whole.error) == (30, "no memory")
    assert (whole.offsets, whole.reached) == ({"o1/0": 7, "o1/1": 5}, {"o1": 51})
