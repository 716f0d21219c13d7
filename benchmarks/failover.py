"""How long no results are published after processes are killed: `python -m benchmarks.failover`.

A hundred queries run under load on one of two executors. The working executor is killed with SIGKILL, then the
coordinator, then both at once. Each time the benchmark measures the seconds until all results are final up to an
instant that was written just after the kill, and how long that usually takes. At the end it compares the results,
record by record, with those of an undisturbed run. Starts its own services; writes `benchmarks/out/failover.json`.
"""

import argparse
import os
import tempfile
from contextlib import ExitStack
from pathlib import Path

from benchmarks.cluster import report
from benchmarks.killing import END, PARTITIONS, Standstill, disturbed, register, results
from benchmarks.report import Result, write_report
from dsms.local.installed import local_broker, local_redis

from integration.cluster import running  # isort: skip
from integration.kafka_topics import create_topic  # isort: skip

OUT = Path(__file__).parent / "out" / "failover.json"
AIM_S = 10.0


def measure(queries: int, directory: Path) -> list[Standstill]:
    """Measures the standstills. Raises AssertionError if a result differs from that of the undisturbed run."""
    with ExitStack() as services:
        broker, redis = local_broker(directory / "kafka", os.environ), local_redis(directory / "redis", os.environ)
        for service in (broker, redis):
            services.callback(service.stop)
            service.start()
        topic = create_topic(broker.address, "failover-in", partitions=PARTITIONS)
        with running(broker.address, redis.url, directory / "killed") as cluster:
            topics = register(cluster, topic, queries)
            report(f"{queries} queries are registered")
            standstills = disturbed(cluster, topic, topics)
            cluster.await_frontier(topics, END)
            disturbed_results = results(broker.address, topics)
        report(f"{sum(map(len, disturbed_results)):,} results are published; now undisturbed")
        with running(broker.address, redis.url, directory / "alone") as alone:
            topics = register(alone, topic, queries)
            alone.start_executor()
            alone.await_frontier(topics, END)
            assert disturbed_results == results(broker.address, topics), (
                "the results differ from those of the undisturbed run"
            )
    report("all results are those of the undisturbed run")
    return standstills


def main() -> None:
    """Measures and writes the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=100)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dsms-bench-") as temporary:
        standstills = measure(asked.queries, Path(temporary))
    figures = [
        figure
        for standstill in standstills
        for figure in (
            Result(f"{standstill.killed} killed, {asked.queries} queries", standstill.seconds, "s", "lower", AIM_S),
            Result(f"usual before {standstill.killed} is killed", standstill.usual_s, "s", "lower"),
        )
    ]
    write_report(OUT, figures)


if __name__ == "__main__":
    main()
