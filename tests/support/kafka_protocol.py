"""Requests of Kafka's protocol and calls of clients, whose answers are written down as lines of text. The same
conversation with two clusters gives the same lines, if the clusters behave equally.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest
from kafka.protocol.metadata import FindCoordinatorRequest
from kafka.protocol.producer import AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest, ProduceRequest

from connectors.kafka.client.broker_connections import connect
from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.connections import Connections
from connectors.kafka.client.topics import ensure_topic
from connectors.kafka.client.transactions import by_topic
from connectors.simulation.kafka.batches import Encoded, batches_of
from operators.core.errors import DsmsError

Producer = tuple[int, int]
Place = tuple[str, int]
#: Answers after which a request is sent again, because the cluster is busy.
_BUSY = {
    KafkaError.CONCURRENT_TRANSACTIONS,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.NOT_ENOUGH_REPLICAS,
}
_ATTEMPTS = 200


@dataclass
class Conversation:
    """A conversation with a cluster. Names of topics and transactional ids have a prefix that no other conversation
    has; it and the numbers of producer ids are left out of the lines.
    """

    settings: KafkaSettings
    prefix: str
    sleep: Callable[[float], None]
    #: The present time, in seconds since 1970. (A broker begins a new segment if timestamps are years apart.)
    now: Callable[[], float]
    lines: list[str] = field(default_factory=list)
    _producers: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._connections: Connections = connect(self.settings)
        self._values = itertools.count()

    def say(self, text: str) -> None:
        """Writes a line down."""
        self.lines.append(text.replace(f"{self.prefix}.", ""))

    def close(self) -> None:
        """Closes the connections."""
        self._connections.close()

    def name(self, short: str) -> str:
        """The name of a topic or the transactional id of this conversation."""
        return f"{self.prefix}.{short}"

    def topic(self, short: str, partitions: int = 1, **config: str) -> str:
        """Creates a topic, and waits until all brokers know it."""
        name = self.name(short)
        settings = {key.replace("_", "."): value for key, value in config.items()}
        ensure_topic(self.settings.admin(), name, partitions, settings)
        self.sleep(0.2)
        return name

    def tried(self, what: str, call: Callable[[], Any]) -> Any:
        """Calls a function, and writes down its result or its error."""
        try:
            result = call()
        except KafkaException as error:
            self.say(f"{what}: {code_name(error.args[0].code())}")
        except DsmsError as error:
            self.say(f"{what}: {type(error).__name__}: {error.message}")
        else:
            self.say(f"{what}: {result}")
            return result
        return None

    # requests of transactions

    def init(
        self, short: str | None, expected: Producer = (-1, -1), *, timeout_ms: int = 60_000, version: int = 4
    ) -> Producer:
        """InitProducerId."""
        owner = None if short is None else self.name(short)

        def request() -> Any:
            return InitProducerIdRequest(
                transactional_id=owner, transaction_timeout_ms=timeout_ms, producer_id=expected[0],
                producer_epoch=expected[1], min_version=version, max_version=version,
            )  # fmt: skip

        answer = self._patient(owner, request, lambda answer: answer.error_code)
        producer = (answer.producer_id, answer.producer_epoch)
        code = code_name(answer.error_code)
        self.say(f"init {short} {self._known(expected)} v{version}: {code} {self._known(producer)}")
        return producer

    def add(self, short: str, producer: Producer, *places: Place, version: int = 3, patient: bool = True) -> None:
        """AddPartitionsToTxn."""
        kind, topics = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic, by_topic(places)

        def request() -> Any:
            return AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.name(short),
                v3_and_below_producer_id=producer[0],
                v3_and_below_producer_epoch=producer[1],
                v3_and_below_topics=[kind(name=name, partitions=parts) for name, parts in topics.items()],
                min_version=version,
                max_version=version,
            )

        def parts(answer: Any) -> list[Any]:
            topics = sorted(answer.results_by_topic_v3_and_below, key=lambda topic: str(topic.name))
            return [
                (f"{topic.name}/{part.partition_index}", part.partition_error_code)
                for topic in topics
                for part in sorted(topic.results_by_partition, key=lambda part: int(part.partition_index))
            ]

        answer = self._patient(self.name(short), request, lambda answer: parts(answer)[0][1], patient=patient)
        found = ", ".join(f"{place} {code_name(code)}" for place, code in parts(answer))
        self.say(f"add {short} {self._known(producer)} v{version}: {found}")

    def end(
        self, short: str, producer: Producer, *, commit: bool = True, version: int = 3, patient: bool = True
    ) -> Producer:
        """EndTxn."""

        def request() -> Any:
            return EndTxnRequest(
                transactional_id=self.name(short), producer_id=producer[0], producer_epoch=producer[1],
                committed=commit, min_version=version, max_version=version,
            )  # fmt: skip

        answer = self._patient(self.name(short), request, lambda answer: answer.error_code, patient=patient)
        after = (answer.producer_id, answer.producer_epoch)
        what = "commit" if commit else "abort"
        more = f" {self._known(after)}" if version >= 5 else ""
        self.say(f"{what} {short} {self._known(producer)} v{version}: {code_name(answer.error_code)}{more}")
        return after

    def settle(self, short: str) -> None:
        """Waits until the markers of the last transaction are written."""
        for _ in range(_ATTEMPTS):
            pairs = [self.offsets_of(place) for place in self._settled_places]
            if all(stable == end for stable, end in pairs):
                break
            self.sleep(0.05)
        self.sleep(0.1)

    _settled_places: tuple[Place, ...] = ()

    def watch(self, *places: Place) -> None:
        """Names the partitions for which `settle` waits."""
        self._settled_places = places

    # records

    def produce(  # noqa: PLR0913 what the conversations vary
        self, place: Place, producer: Producer, sequence: int, *, count: int = 1, owner: str | None = None,
        version: int = 9, keys: bool = True, size: int = 10, age_s: float = 0.0, patient: bool = True,
    ) -> None:  # fmt: skip
        """Produce: one batch to one partition."""
        now_ms = int((self.now() - age_s) * 1000)
        records = tuple(
            (b"k%d" % number if keys else None, b"v%d " % next(self._values) + b"x" * size, [], now_ms + number)
            for number in range(count)
        )
        body = Encoded(records).sealed(*producer, sequence, transactional=owner is not None)
        kind = ProduceRequest.TopicProduceData

        def attempt() -> Any:
            part = kind.PartitionProduceData(index=place[1], records=body)
            request = ProduceRequest(
                transactional_id=None if owner is None else self.name(owner), acks=-1, timeout_ms=10_000,
                topic_data=[kind(name=place[0], partition_data=[part])], min_version=version, max_version=version,
            )  # fmt: skip
            return self._ask_leader(place, request).responses[0].partition_responses[0]

        answer = self._repeated(attempt, lambda answer: answer.error_code, patient=patient)
        what = f"produce {place[0]}/{place[1]} {count} of {self._known(producer)} #{sequence} v{version}"
        stamped = " stamped" if answer.log_append_time_ms >= 0 else ""
        self.say(f"{what}: {code_name(answer.error_code)} at {answer.base_offset}{stamped}")

    def fetch(self, place: Place, offset: int = 0, *, committed: bool = True) -> None:
        """Fetch, until all records up to the last stable offset are read."""
        kind = FetchRequest.FetchTopic
        part = kind.FetchPartition(
            partition=place[1], current_leader_epoch=-1, fetch_offset=offset, last_fetched_epoch=-1,
            log_start_offset=-1, partition_max_bytes=1 << 20,
        )  # fmt: skip
        request = FetchRequest(
            replica_id=-1, max_wait_ms=100, min_bytes=1, max_bytes=1 << 20, isolation_level=int(committed),
            session_id=0, session_epoch=-1, topics=[kind(topic=place[0], partitions=[part])],
            forgotten_topics_data=[], rack_id="", max_version=12,
        )  # fmt: skip
        answer = self._repeated(
            lambda: self._ask_leader(place, request).responses[0].partitions[0], lambda answer: answer.error_code
        )
        batches = [self._described(batch) for batch in batches_of(bytes(answer.records or b""))]
        aborted = [f"{self._known((each.producer_id, 0))[:2]} from {each.first_offset}"
                   for each in answer.aborted_transactions or ()]  # fmt: skip
        ends = f"start {answer.log_start_offset}, stable {answer.last_stable_offset}, end {answer.high_watermark}"
        how = "committed" if committed else "all"
        self.say(f"fetch {place[0]}/{place[1]} {how} from {offset}: {code_name(answer.error_code)}; {ends}")
        for line in [*batches, *(f"aborted: {each}" for each in aborted)]:
            self.say(f"  {line}")

    def offsets(self, place: Place, *timestamps: int) -> None:
        """ListOffsets."""
        for committed in (True, False):
            found = [self._offset(place, timestamp, committed=committed) for timestamp in timestamps or (-2, -1)]
            how = "committed" if committed else "all"
            self.say(f"offsets {place[0]}/{place[1]} {how}: {', '.join(map(str, found))}")

    def offsets_of(self, place: Place) -> tuple[int | str, int | str]:
        """The last stable offset of a partition, and its end."""
        return self._offset(place, -1, committed=True), self._offset(place, -1, committed=False)

    def _offset(self, place: Place, timestamp: int, *, committed: bool) -> int | str:
        kind = ListOffsetsRequest.ListOffsetsTopic
        part = kind.ListOffsetsPartition(partition_index=place[1], current_leader_epoch=-1, timestamp=timestamp)
        request = ListOffsetsRequest(
            replica_id=-1, isolation_level=int(committed), topics=[kind(name=place[0], partitions=[part])],
            max_version=5,
        )  # fmt: skip
        answer = self._repeated(
            lambda: self._ask_leader(place, request).topics[0].partitions[0], lambda answer: answer.error_code
        )
        return code_name(answer.error_code) if answer.error_code else int(answer.offset)

    # how to ask

    def _ask_leader(self, place: Place, request: Any) -> Any:
        leader = self._connections.leader(*place, refreshed=True)
        connections = self._connections
        future = connections.send_to_any(request) if leader is None else connections.send(leader, request)
        return self._connections.wait(future, 30)

    def _patient(
        self, owner: str | None, request: Callable[[], Any], code: Callable[[Any], int], *, patient: bool = True
    ) -> Any:
        """The answer of the coordinator of a transactional id, once it is not busy."""

        def attempt() -> Any:
            if owner is None:
                return self._connections.wait(self._connections.send_to_any(request()), 30)
            find = FindCoordinatorRequest(key=owner, key_type=1, coordinator_keys=[owner], max_version=3)
            found = self._connections.wait(self._connections.send_to_any(find), 30)
            if found.error_code:
                self.sleep(0.1)
                return attempt()
            return self._connections.wait(self._connections.send(found.node_id, request()), 30)

        return self._repeated(attempt, code, patient=patient)

    def _repeated(self, attempt: Callable[[], Any], code: Callable[[Any], int], *, patient: bool = True) -> Any:
        for _ in range(_ATTEMPTS):
            answer = attempt()
            wait = _BUSY if patient else _BUSY - {KafkaError.CONCURRENT_TRANSACTIONS, KafkaError.NOT_ENOUGH_REPLICAS}
            if code(answer) not in wait:
                break
            self.sleep(0.05)
        return answer

    def _known(self, producer: Producer) -> str:
        """A producer with a name instead of its number."""
        if producer[0] < 0:
            return "-"
        return f"{self._producers.setdefault(producer[0], f'P{len(self._producers) + 1}')}/{producer[1]}"

    def _described(self, batch: Any) -> str:
        who = self._known((batch.producer, batch.epoch))
        if batch.control:
            (record,) = batch.records()
            what = "commit" if (record.key or b"")[2:4] == b"\0\1" else "abort"
            return f"{batch.base_offset}: {what} marker of {who}"
        kind = "transactional" if batch.transactional else "plain"
        return f"{batch.base_offset} to {batch.last_offset}: {kind}, {who} #{batch.sequence}"


def code_name(code: int) -> str:
    """The name of an error code."""
    return "ok" if not code else str(KafkaError(code).name())


def shown(messages: Iterable[Any]) -> list[str]:
    """Messages of a consumer, each in one line."""
    return [f"{each.partition()}@{each.offset()} {_content(each)}" for each in messages]


def _content(message: Any) -> str:
    if message.error() is not None:
        return code_name(message.error().code())
    return str((message.key(), message.value(), message.headers()))
