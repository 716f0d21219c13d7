"""The chart on a real control plane: a query is registered, fed and read, and survives kills."""

import json
import os
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass

import pytest

from dsms.local.waiting import wait_until
from integration.kafka_log import Input, advance, changes, write
from integration.kafka_topics import create_topic
from integration.kube.api import Api
from integration.kube.pod_runner import PodRunner
from integration.kube.release import Release

pytestmark = [pytest.mark.kube, pytest.mark.timeout(900)]
PARTITIONS = 2
DEADLINE_S = 180.0
LEASES = "/apis/coordination.k8s.io/v1"


def value_of(n: int) -> int:
    return n * 37 % 101


def tell(line: str) -> None:
    sys.stdout.write(f"\n{line}\n")


@dataclass
class Feed:
    """A source topic, and the records written to it."""

    kafka: str
    topic: str
    given: int = 0

    def more(self, count: int) -> None:
        """Writes numbered records at ascending instants to all partitions, and heartbeats that make them final."""
        numbers = range(self.given, self.given + count)
        rows = [json.dumps({"n": n, "k": f"k{n % 7}", "v": value_of(n)}).encode() for n in numbers]
        write(self.kafka, self.topic, [Input(row, n, n % PARTITIONS) for n, row in zip(numbers, rows, strict=True)])
        self.given += count
        advance(self.kafka, self.topic, self.given, PARTITIONS)

    def passed(self) -> Counter[int]:
        """The numbers of the records that the query `passed` keeps, each once."""
        return Counter(n for n in range(self.given) if value_of(n) < 50)

    def totals(self) -> dict[str, int]:
        """The sums of the query `totals`, by key."""
        totals: Counter[str] = Counter()
        for n in range(self.given):
            totals[f"k{n % 7}"] += value_of(n)
        return dict(totals)


@pytest.fixture(scope="module")
def feed(release: Release, kafka: str) -> Feed:
    """A source with two queries over it."""
    topic = create_topic(kafka, "numbers", partitions=PARTITIONS)
    release.sql(f"""
        REGISTER SOURCE numbers (n INT NOT NULL, k VARCHAR NOT NULL, v INT) FROM "{topic}" SLACK 0 IDLE NEVER;
        CREATE STREAM every OVER numbers KEY NULL;
        CREATE STREAMED VIEW passed AS SELECT n, v FROM R(every) WHERE v < 50;
        CREATE STREAMED VIEW totals AS SELECT k, SUM(v) AS total FROM R(every) GROUP BY k;
    """)
    return Feed(kafka, topic)


def numbers_in(kafka: str, topic: str) -> Counter[int]:
    return Counter(json.loads(change.value)["n"] for change in changes(kafka, topic) if change.value)


def totals_in(kafka: str, topic: str) -> dict[str, int]:
    """The last published total of each key."""
    totals: dict[str, int] = {}
    for change in changes(kafka, topic):
        if change.value:
            row = json.loads(change.value)
            totals[row["k"]] = row["total"]
    return totals


def await_another(release: Release, leader: PodRunner) -> None:
    """Waits until another coordinator leads."""
    done = wait_until(lambda: bool(ready := release.leaders()) and leader not in ready, 120, pause_s=0.1)
    assert done, release.kubelet.logs()


def assert_complete(release: Release, feed: Feed, deadline_s: float = DEADLINE_S) -> None:
    """Waits for all results, and asserts that each is published exactly once."""
    passed, totals = (release.document(f"/v1/queries/{name}")["topic"] for name in ("passed", "totals"))
    done = wait_until(
        lambda: numbers_in(feed.kafka, passed) >= feed.passed() and totals_in(feed.kafka, totals) == feed.totals(),
        deadline_s, pause_s=0.5,
    )  # fmt: skip
    assert done, f"{release.document('/v1/status')}\n{release.kubelet.logs()}"
    assert numbers_in(feed.kafka, passed) == feed.passed()


def kill_9(pid: int | None) -> float:
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    return time.monotonic()


def test_one_of_two_coordinators_is_ready(release: Release, api: Api):
    assert wait_until(lambda: len(release.leaders()) == 1, 120), release.kubelet.logs()
    (leader,) = release.leaders()
    lease = api.get(release.path("leases", "dsms-coordinator", LEASES))
    assert lease["spec"]["holderIdentity"].startswith(leader.name + "_")
    assert lease["metadata"]["labels"]["app.kubernetes.io/name"] == "dsms"
    deployment = api.get(release.path("deployments", "dsms-coordinator", "/apis/apps/v1"))
    assert (deployment["status"]["replicas"], deployment["status"]["readyReplicas"]) == (2, 1)


def test_the_account_may_do_nothing_but_hold_its_lease(release: Release, api: Api):
    answer = api.create(f"{release.path('serviceaccounts', 'dsms')}/token", {"spec": {"audiences": []}})
    account = Api(api.url, api.ca, answer["status"]["token"])
    try:
        assert account.answers(release.path("leases", "dsms-coordinator", LEASES))
        refused = [
            release.path("leases", "", LEASES), release.path("leases", "other", LEASES), release.path("secrets"),
            release.path("secrets", "redis"), release.path("pods"), release.path("configmaps"), "/api/v1/nodes",
        ]  # fmt: skip
        assert not [path for path in refused if account.answers(path)]
        with pytest.raises(AssertionError, match="403"):
            account.create(release.path("leases", "", LEASES), {"metadata": {"name": "own"}})
    finally:
        account.close()


def test_calls_without_a_valid_token_are_refused(release: Release):
    assert release.ask("GET", "/v1/queries", token="dsms_wrong").status_code == 401


def test_a_query_is_registered_fed_and_read(release: Release, feed: Feed):
    feed.more(500)
    assert_complete(release, feed)


def test_the_other_coordinator_takes_over_from_a_killed_leader(release: Release, feed: Feed):
    (leader,) = release.leaders()
    killed = kill_9(leader.pid)
    feed.more(300)
    await_another(release, leader)
    tell(f"the other coordinator was ready {time.monotonic() - killed:.1f} s after the leader was killed")
    assert {query["name"] for query in release.document("/v1/queries")} >= {"passed", "totals"}
    release.sql("CREATE STREAMED VIEW late AS SELECT n FROM R(every) WHERE v >= 50")
    feed.more(200)
    assert_complete(release, feed)
    late = release.document("/v1/queries/late")["topic"]
    expected = Counter(n for n in range(feed.given) if value_of(n) >= 50)
    assert wait_until(lambda: numbers_in(feed.kafka, late) == expected, DEADLINE_S, pause_s=0.5), release.kubelet.logs()
    assert wait_until(lambda: leader.restarts == 1 and len(release.leaders()) == 1, 120), release.kubelet.logs()


def test_frozen_leader_ends_after_it_resumes(release: Release, feed: Feed):
    (leader,) = release.leaders()
    ended, frozen = leader.restarts, leader.pid
    assert frozen is not None
    os.kill(frozen, signal.SIGSTOP)
    try:
        await_another(release, leader)
        release.sql("CREATE STREAMED VIEW later AS SELECT n FROM R(every) WHERE v >= 90")
    finally:
        os.kill(frozen, signal.SIGCONT)
    assert wait_until(lambda: leader.restarts == ended + 1, 120), release.kubelet.logs()
    assert "no longer leads" in leader.log()
    assert "later" in {query["name"] for query in release.document("/v1/queries")}


def owners(release: Release) -> dict[str, dict]:
    """The executor and the lease of each fragment."""
    return release.document("/v1/status")["assignments"]


def test_results_continue_after_an_executor_is_killed(release: Release, feed: Feed):
    """The executor may be restarted before its lease has ended."""
    pod = release.kubelet.pod(next(iter(owners(release).values()))["executor"])
    killed = kill_9(pod.pid)
    feed.more(400)
    assert_complete(release, feed)
    tell(f"all results were there {time.monotonic() - killed:.1f} s after the executor was killed")
    assert wait_until(lambda: pod.restarts == 1, 120)


def test_another_executor_takes_over_when_one_does_not_return(release: Release, feed: Feed):
    before = owners(release)
    gone = next(iter(before.values()))["executor"]
    killed = keep_down(release.kubelet.pod(gone))
    feed.more(400)
    assert_complete(release, feed)
    tell(f"all results were there {time.monotonic() - killed:.1f} s after the executor had gone")
    after = owners(release)
    assert all(
        after[name]["lease"] > fragment["lease"] for name, fragment in before.items() if fragment["executor"] == gone
    )


def keep_down(pod: PodRunner) -> float:
    """Kills an executor until its restart is delayed by longer than its lease; returns the moment of the last kill."""
    killed = 0.0
    while pod.restarts < 2:
        pid, restarts = pod.pid, pod.restarts
        killed = kill_9(pid)
        assert wait_until(lambda: pod.restarts > restarts and (pod.restarts >= 2 or pod.pid not in (None, pid)), 120)  # noqa: B023
    return killed


def executors(release: Release, api: Api) -> int:
    """How many executors are asked for."""
    return api.get(release.path("statefulsets", "dsms-executor", "/apis/apps/v1"))["spec"]["replicas"]


def test_executors_follow_the_load(release: Release, api: Api, feed: Feed):
    """1, 3 and 1 again, as records come faster than one executor reads them in small batches, and then no more."""
    values, scaling = release.values(), {"enabled": True, "maxReplicas": 3, "upSeconds": 3, "downSeconds": 8}
    executor = {**values["executor"], "autoscaling": scaling, "batchRecords": 200}
    release.helm("upgrade", {**values, "executor": executor})
    assert wait_until(lambda: len(release.leaders()) == 1 and executors(release, api) == 1, 120), release.kubelet.logs()
    release.sql("CREATE STREAMED VIEW low AS SELECT n FROM R(every) WHERE v < 10")  # on the third fragment
    began, seen = time.monotonic(), [1]
    while seen[-1] < 3 and time.monotonic() - began < DEADLINE_S:
        feed.more(400)
        if (now := executors(release, api)) != seen[-1]:
            seen.append(now)
            tell(f"{now} executors after {time.monotonic() - began:.0f} s and {feed.given} records")
        time.sleep(0.4)  # the pace of the load
    assert seen == [1, 2, 3], release.kubelet.logs()
    assert wait_until(lambda: len({owner["executor"] for owner in owners(release).values()}) == 3, 120)
    assert_complete(release, feed, 2 * DEADLINE_S)
    assert wait_until(lambda: executors(release, api) == 1, DEADLINE_S), release.kubelet.logs()
    feed.more(100)
    assert_complete(release, feed)


def test_an_upgrade_replaces_every_pod_and_loses_nothing(release: Release, feed: Feed):
    before = {pod.pod["metadata"]["uid"] for pod in release.kubelet.pods.values()}
    values = release.values()
    executor = {**values["executor"], "batchSeconds": 2}
    release.helm("upgrade", {**values, "coordinator": {"podAnnotations": {"a": "b"}}, "executor": executor})
    feed.more(300)
    assert wait_until(lambda: not before & release.kubelet.pods.keys(), 120), release.kubelet.logs()
    assert wait_until(lambda: len(release.leaders()) == 1, 120), release.kubelet.logs()
    assert_complete(release, feed)


def test_uninstalling_leaves_nothing(release: Release, api: Api):
    release.helm("uninstall")
    assert wait_until(lambda: not api.items(release.path("pods")), 120)
    assert not release.kubelet.pods
    assert api.find(release.path("leases", "dsms-coordinator", LEASES)) is None
