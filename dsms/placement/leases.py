"""Assigns fragments to executors, as a pure function of leases, and defines the statuses that executors report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Final, Literal

import msgspec

from connectors.alarms import Alarm, Alarms
from dsms.scheduling.tuning import TunableSettings
from operators.core.decoding import Int64, Malformed, Natural, decoded

#: States of an executor: it cannot run fragments yet; it has no fragments; it runs its fragments; it tries to run them.
STARTING: Final = "starting"
IDLE: Final = "idle"
RUNNING: Final = "running"
RECOVERING: Final = "recovering"


class Assignment(msgspec.Struct, frozen=True):
    """The executor that owns a fragment. `lease` is a fencing token that grows with every change of owner. It is at
    least the time of the change in milliseconds, so it grows even if Redis has lost the last token.
    """

    executor: str
    lease: Natural = 1


class QueryStatus(msgspec.Struct, frozen=True):
    """The status of a query: its frontier (None: not known yet), the next offset by partition, why it failed, the
    fraction of its input that it keeps (`stays`), the number of shed rows (`left_out`), and whether it is late because
    its `bound` on the error allows no more shedding.
    """

    frontier: Int64 | None = None
    offsets: dict[str, Int64] = {}
    error: str | None = None
    stays: float = 1.0
    left_out: Natural = 0
    late: bool = False
    #: The instants that the query has passed in its sources, by source id.
    reached: dict[str, int] = {}
    #: What records of its sources wait for, such as an unknown schema; the query continues with the other partitions.
    waits: tuple[str, ...] = ()
    #: The sizes of its windows as a fraction of their ranges (None: it has no such windows), and whether they fit in
    #: memory.
    size: float | None = None
    fits: bool = True
    #: If the query is changing to another plan: whether that plan builds its state, has built it, or has failed.
    next_plan: Literal["", "building", "ready", "failed"] = ""
    #: The id of the next plan.
    next_id: str = ""
    #: Why the next plan has failed.
    next_error: str = ""
    #: The number of rows of which `left_out` were shed, and the option that limits shedding.
    rows_to_shed: Natural = 0
    bound: Literal["max_error", "max_loss"] = "max_error"

    @property
    def shed(self) -> str:
        """A short text that says how input is shed or windows are reduced.

        >>> QueryStatus(stays=0.25, left_out=300).shed, QueryStatus(late=True).shed, QueryStatus(left_out=300).shed
        ('shed to 25 %, 300 rows left out', 'late: max_error allows no more shedding', '300 rows left out')
        >>> QueryStatus(stays=0.75, left_out=300, rows_to_shed=1000, bound="max_loss").shed
        'shed to 75 %, 300 of 1000 rows left out (30.0 %)'
        """
        words = [f"shed to {self.stays:.0%}".replace("%", " %")] if self.stays < 1 else []
        words += [self._left_out] if self.left_out else []
        words += [f"windows at {self.size:.0%} of their range".replace("%", " %")] if (self.size or 1) < 1 else []
        words += ["windows at their minimum size"] if self.size == 0 else []
        words += ["the windows do not fit in memory"] if not self.fits else []
        return ", ".join([*words, *([f"late: {self.bound} allows no more shedding"] if self.late else [])])

    @property
    def _left_out(self) -> str:
        """The rows that were shed; if the part that is missing is the error, also this part."""
        if self.bound == "max_error":
            return f"{self.left_out} rows left out"
        return (
            f"{self.left_out} of {self.rows_to_shed} rows left out ({self.left_out / self.rows_to_shed:.1%})".replace(
                "%", " %"
            )
        )


class CheckpointStatus(msgspec.Struct, frozen=True):
    """The checkpoints of a fragment: the newest one and when it was created (in seconds since 1970), the number of the
    last served request, and why no checkpoint can be created at present.
    """

    id: str = ""
    created: float = 0.0
    bytes: int = 0
    served: int = 0
    error: str = ""


class FragmentStatus(msgspec.Struct, frozen=True):
    """The status of a fragment on its executor, and of its queries. `dead_letters` counts the refused records of each
    source: they were late, undecodable, or had a fault (an expression without a value) in a query."""

    state: str = RECOVERING
    reason: str = ""
    plan_version: int = 0
    epoch: int = 0
    batch_records: int = 0
    lanes: dict[str, QueryStatus] = {}
    dead_letters: dict[str, int] = {}
    #: What records of sources wait for, by source.
    waits: dict[str, str] = {}
    #: The bytes of its state in Redis, and only on disk.
    redis_bytes: int = 0
    disk_bytes: int = 0
    #: None if no checkpoints are made.
    checkpoint: CheckpointStatus | None = None


class ExecutorStatus(msgspec.Struct, frozen=True):
    """The status that an executor reports whenever it renews its lease: the states of its fragments, and their
    totals."""

    state: str = IDLE
    plan_version: int = 0
    epoch: int = 0
    batch_records: int = 0
    lanes: dict[str, QueryStatus] = {}
    reason: str = ""
    dead_letters: dict[str, int] = {}
    #: What records of sources wait for, by source.
    waits: dict[str, str] = {}
    fragments: dict[str, str] = {}
    #: Its current tunable settings.
    tunable: TunableSettings | None = msgspec.field(default=None, name="bounds")
    #: The bytes of its state in Redis, and only on disk.
    redis_bytes: int = 0
    disk_bytes: int = 0
    #: The checkpoints of its fragments, if any are made.
    checkpoints: dict[str, CheckpointStatus] = {}
    #: The alarms for invalid data that it has read.
    alarms: tuple[Alarm, ...] = ()
    #: Whether its records in internal topics name it as their writer, and whether its results name the cluster.
    names_writer: bool = msgspec.field(default=False, name="marks")
    names_cluster_in_results: bool = msgspec.field(default=False, name="marks_results")


def executor_status(parts: Mapping[str, FragmentStatus]) -> ExecutorStatus:
    """The status of an executor, from those of its fragments. It is running if all fragments are; its plan version is
    the one that all have reached.

    >>> executor_status({}).state
    'idle'
    >>> executor_status({"0": FragmentStatus("running"), "1": FragmentStatus("recovering")}).state
    'recovering'
    """
    if not parts:
        return ExecutorStatus()
    statuses = list(parts.values())
    refused = Counter[str]()
    for part in statuses:
        refused.update(part.dead_letters)
    return ExecutorStatus(
        next((part.state for part in statuses if part.state != RUNNING), RUNNING),
        min(part.plan_version for part in statuses),
        max(part.epoch for part in statuses),
        min(part.batch_records for part in statuses),
        {query: lane for part in statuses for query, lane in part.lanes.items()},
        "; ".join(part.reason for part in statuses if part.reason),
        dead_letters=dict(refused),
        fragments={name: part.state for name, part in parts.items()},
        waits={source: why for part in statuses for source, why in part.waits.items()},
        redis_bytes=sum(part.redis_bytes for part in statuses),
        disk_bytes=sum(part.disk_bytes for part in statuses),
        checkpoints={name: part.checkpoint for name, part in parts.items() if part.checkpoint is not None},
    )


def assign(
    current: Mapping[str, Assignment],
    alive: Mapping[str, ExecutorStatus],
    fragments: Collection[str],
    now_ms: int,
    idle: Collection[str] = (),
) -> dict[str, Assignment]:
    """The new executor of each fragment. A fragment stays while its executor is alive; otherwise the live executor with
    the fewest fragments takes it over. Executors that are starting are used only if there are no others, because they
    cannot run fragments yet.

    If an executor has at least two fragments with queries more than another, one of them moves; only one at a time,
    because a moved fragment must recover. Otherwise, if an executor has at least two fragments more than another, one
    of its `idle` fragments, which have no queries, moves.

    >>> alone = assign({}, {"a": ExecutorStatus()}, ["0", "1"], 900)
    >>> alone
    {'0': Assignment(executor='a', lease=900), '1': Assignment(executor='a', lease=900)}
    >>> assign(alone, {"a": ExecutorStatus(), "b": ExecutorStatus()}, ["0", "1"], 950)["1"]
    Assignment(executor='b', lease=950)
    """
    able = [name for name, status in alive.items() if status.state != STARTING] or list(alive)
    assigned = {fragment: current[fragment] for fragment in fragments if fragment in current}
    if not able:
        return assigned
    for fragment in sorted(fragments, key=lambda name: name in idle):
        if fragment not in assigned or assigned[fragment].executor not in able:
            loads = _loads(assigned, able, idle)
            least = min(able, key=lambda name: (*loads[name][fragment in idle :], name))
            assigned[fragment] = _moved(assigned.get(fragment), least, now_ms)
    return assigned | _rebalanced(assigned, able, idle, now_ms)


def renewed(assignment: Assignment, known: int, now_ms: int) -> Assignment:
    """The assignment, with a new lease if a greater one is `known`: then the store has gone back to an earlier content.
    The executor may have claimed the fragment under the greater lease, which refuses the earlier one.

    >>> renewed(Assignment("a", 7), 7, 20), renewed(Assignment("a", 5), 7, 20), renewed(Assignment("a", 5), 30, 20)
    (Assignment(executor='a', lease=7), Assignment(executor='a', lease=20), Assignment(executor='a', lease=31))
    """
    return assignment if assignment.lease >= known else Assignment(assignment.executor, max(now_ms, known + 1))


def _loads(
    assigned: Mapping[str, Assignment], able: Collection[str], idle: Collection[str]
) -> dict[str, tuple[int, int]]:
    """The number of fragments with queries, and the number of all fragments, of each executor."""
    names = [(assignment.executor, fragment in idle) for fragment, assignment in assigned.items()]
    with_queries, all_ = Counter(name for name, without in names if not without), Counter(name for name, _ in names)
    return {name: (with_queries[name], all_[name]) for name in able}


def _moved(before: Assignment | None, executor: str, now_ms: int) -> Assignment:
    return Assignment(executor, max(now_ms, before.lease + 1 if before else 0))


def _rebalanced(
    assigned: Mapping[str, Assignment], able: Collection[str], idle: Collection[str], now_ms: int
) -> dict[str, Assignment]:
    """The new assignment of the fragment that moves, if one moves."""
    loads = _loads(assigned, able, idle)
    for kind, movable in enumerate(([*assigned.keys() - set(idle)], [*assigned.keys() & set(idle)])):
        least = min(able, key=lambda name: loads[name][kind])
        fullest = max(movable, key=lambda name: (loads[assigned[name].executor][kind], name), default=None)
        if fullest is not None and loads[assigned[fullest].executor][kind] - loads[least][kind] >= 2:
            return {fullest: _moved(assigned[fullest], least, now_ms)}
    return {}


def read_assignments(body: bytes | None) -> dict[str, Assignment]:
    """The assignments in a document; {} without a document. Raises Malformed if the document is invalid."""
    assigned: dict[str, Assignment] = decoded(body, dict[str, Assignment]) if body else {}
    return assigned


def read_statuses(bodies: Mapping[str, bytes], alarms: Alarms) -> dict[str, ExecutorStatus]:
    """The statuses that executors have reported, by name. An invalid one is left out and raises an alarm."""
    statuses: dict[str, ExecutorStatus] = {}
    for name, body in bodies.items():
        place = f"executor:{name}"
        try:
            statuses[name] = decoded(body, ExecutorStatus)
            alarms.clear(place)
        except Malformed as error:
            alarms.raise_at(place, str(error))
    return statuses
