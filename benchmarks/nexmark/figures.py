"""The figures of the report: the cost of each query on this system and on the peer."""

from collections.abc import Callable, Mapping

from benchmarks.nexmark.measured import Measured
from benchmarks.peers.flink import NAME
from benchmarks.report import Peer, Result

#: A figure of a run over the given number of records; None if there were too few records to measure it.
Figure = Callable[[Measured, int], float | None]


def throughput(measured: Measured, records: int) -> float | None:
    """Records a second."""
    return records / measured.net_s if measured.net_s else None


def cpu(measured: Measured, records: int) -> float | None:
    """CPU seconds a million records."""
    return measured.net_cpu_s * 1e6 / records if measured.net_cpu_s else None


def peak_memory(measured: Measured, _: int) -> float | None:
    """Peak memory in MB."""
    return measured.whole.peak_mb


def others(measured: Measured, _: int) -> float | None:
    """Cores that other processes used during the run."""
    return measured.whole.others


def loop(measured: Measured, _: int) -> float | None:
    """The seconds of a calibration loop just before the run."""
    return measured.whole.loop_s


FIGURES: Mapping[str, tuple[Figure, str, str]] = {
    "throughput": (throughput, "records/s", "higher"),
    "CPU": (cpu, "CPU s/million records", "lower"),
    "peak memory": (peak_memory, "MB", "lower"),
    "others": (others, "cores", "lower"),
    "loop": (loop, "s", "lower"),
}


def figures(
    label: str, records: int, ours: Measured | None, peer: Measured | None
) -> tuple[list[Result], dict[str, str]]:
    """The figures of a query, and the reason for each that is missing.

    >>> from benchmarks.nexmark.measured import Cost
    >>> few, whole = Cost(1.0, 1.0, 500.0, 0.0), Cost(3.0, 2.0, 900.0, 0.0)
    >>> results, missing = figures("q0", 4_000, Measured(whole, few), Measured(few, few))
    >>> results[0].name, results[0].value, results[0].peer, missing["q0: throughput (Flink SQL 2.3.0, warm)"]
    ('q0: throughput', 2000.0, None, '4,000 records are too few')
    >>> figures("q0", 4_000, None, Measured(whole, few))[1]["q0: throughput"]
    'only Flink SQL 2.3.0, warm: 2000 records/s'
    """
    results, missing = [], {}
    for name, (figure, unit, better) in FIGURES.items():
        key, too_few = f"{label}: {name}", f"{records:,} records are too few"
        value, theirs = (None if measured is None else figure(measured, records) for measured in (ours, peer))
        if value is not None:
            results.append(Result(key, value, unit, better, peer=None if theirs is None else Peer(NAME, theirs)))
        elif theirs is not None:
            missing[key] = f"only {NAME}: {theirs:.6g} {unit}"
        elif ours is not None:
            missing[key] = too_few
        if peer is not None and theirs is None:
            missing[f"{key} ({NAME})"] = too_few
    return results, missing
