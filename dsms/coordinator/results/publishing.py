"""Publishes records to sources over HTTP: checks all records first, then sends each once, in order."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa

from connectors.formats import Encoder, JsonDecoder
from connectors.formats.record_codec import JsonCodec, Row, RowEncoder
from connectors.formats.record_formats import FORMATS
from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.errors import translate, translated
from connectors.kafka.records.publish import Outgoing, Record, existing_partitions, heartbeats, queue
from connectors.kafka.records.record_lines import LineFormat
from dsms.coordinator.results.positions import MAX_RECORDS, token_of
from dsms.model.objects import Source
from dsms.runtime.stages.intake import reading_schema
from operators.core.delta import is_instant
from operators.core.errors import DsmsError, ExternalError, UserError

_DELIVERY_MS = 20_000
_BODY = msgspec.json.Decoder(list[msgspec.Raw])
#: Registers the schema of a source's "key" or "value", and returns its id.
SchemaId = Callable[[Source, str, dict[str, Any]], int]


@dataclass(frozen=True)
class Published:
    """The positions of published records, in the order in which they were sent."""

    source: Source
    places: tuple[tuple[int, int], ...]

    def document(self) -> dict[str, Any]:
        """The JSON document for the client."""
        source = self.source.id
        records = [
            {"partition": partition, "offset": offset, "token": str(token_of(source, [(partition, offset)]))}
            for partition, offset in self.places
        ]
        return {"records": records, "token": str(token_of(source, self.places)) if records else None}


def split_body(body: bytes) -> list[bytes]:
    """The records of a body: the items of a JSON list, or lines of JSON.

    >>> split_body(b'[{"a": 1}, {"a": 2}]') == split_body(b'{"a": 1}\\n\\n{"a": 2}\\n')
    True
    """
    try:
        listed = [bytes(record) for record in _BODY.decode(body)] if body.lstrip()[:1] == b"[" else body.split(b"\n")
    except (msgspec.DecodeError, RecursionError) as error:
        raise UserError(
            f"not a JSON list: {error}", hint="send a JSON list of objects, or one object per line"
        ) from error
    records = [record for record in listed if record.strip()]
    if len(records) > MAX_RECORDS:
        raise UserError(f"{len(records)} records are too many for one call", hint=f"send at most {MAX_RECORDS}")
    return records


class RecordPublisher:
    """Sends records to the topics of sources."""

    def __init__(self, kafka: KafkaSettings, schema_id: SchemaId) -> None:
        self._kafka, self._schema_id = kafka, schema_id
        self._starting = threading.Lock()
        self._producer: Any = None

    def publish(self, source: Source, body: bytes, key: Sequence[str] = (), advance: int | None = None) -> Published:
        """Sends the records of a body, then sends a heartbeat to every partition that promises that no record below
        `advance` will follow. If one record is wrong, refuses all."""
        if advance is not None and not is_instant(advance):
            raise UserError(
                f'"advance" is {advance}, which is not an instant', hint="give an integer between -2^62 and 2^62"
            )
        records = self._records(source, split_body(body), key)
        partitions = existing_partitions(self._kafka, source.topic)
        places = self._send(source, [record.record() for record in records])
        if advance is not None:
            self._send(source, heartbeats(partitions, advance))
        return Published(source, tuple(places))

    def _records(self, source: Source, lines: Sequence[bytes], key: Sequence[str]) -> list[Outgoing]:
        if FORMATS[source.format].encoder is None:
            raise UserError(
                f'source "{source.name}" has FORMAT {source.format.upper()}, which cannot be written from rows',
                hint=f'write them to topic "{source.topic}"',
            )
        encoder: RowEncoder = JsonCodec() if source.format == "json" else _EncodedRows(source, key, self._schema_id)
        named = {*source.schema.names, source.timestamp or "", source.tagged}
        form = LineFormat(encoder, tuple(key), frozenset(named))
        return [_outgoing(form, number, line) for number, line in enumerate(lines, 1)]

    def _send(self, source: Source, records: Sequence[Record]) -> list[tuple[int, int]]:
        producer, sent = self._started(), _Sent(source.topic, len(records))
        for number, record in enumerate(records):
            with translated(f'publishing to topic "{source.topic}"'):
                queue(producer, source.topic, record, partial(sent.done, number))
        deadline = time.monotonic() + 2 * _DELIVERY_MS / 1000
        while sent.open and time.monotonic() < deadline:
            producer.poll(0.05)
        return sent.places()

    def _started(self) -> Any:
        with self._starting:
            if self._producer is None:
                self._producer = self._kafka.producer(message_timeout_ms=_DELIVERY_MS, linger_ms=5)
            return self._producer


class _Sent:
    """The outcomes of records that were sent. `open` is the number of records without an outcome."""

    def __init__(self, topic: str, count: int) -> None:
        self._topic = topic
        self._places: list[tuple[int, int] | None] = [None] * count
        self._failure: DsmsError | None = None
        self.open = count

    def done(self, number: int, error: Any, message: Any) -> None:
        """Takes the outcome of a record; the Kafka client calls it once for each."""
        if error is None:
            self._places[number] = (message.partition(), message.offset())
        else:
            self._failure = self._failure or translate(error, f'publishing to topic "{self._topic}"')
        self.open -= 1

    def places(self) -> list[tuple[int, int]]:
        """The positions of all records. Raises ExternalError if some have failed or may have failed."""
        published = [place for place in self._places if place is not None]
        if len(published) == len(self._places):
            return published
        reason = str(self._failure) if self._failure else "kafka has not acknowledged the others"
        raise ExternalError(f"{len(published)} of {len(self._places)} records were published: {reason}")


class _EncodedRows:
    """Encodes rows in the format of the source, with the schema of the source's columns."""

    def __init__(self, source: Source, key: Sequence[str], schema_id: SchemaId) -> None:
        self._source, self._key, self._schema_id = source, tuple(key), schema_id
        self._parts: dict[bool, tuple[JsonDecoder, Encoder]] = {}

    def encode(self, row: Row, *, key: bool) -> bytes:
        """The bytes of a row."""
        decoder, encoder = self._parts.get(key) or self._part(key)
        decoded = decoder.decode([JsonCodec().encode(row, key=key)])
        if decoded.refused:
            raise UserError(decoded.refused[0].message)
        return bytes(encoder.encode(decoded.frame)[0])

    def _part(self, key: bool) -> tuple[JsonDecoder, Encoder]:
        name, part = self._source.name, "key" if key else "value"
        schema = reading_schema(self._source)
        if key:
            missing = [column for column in self._key if column not in schema.names]
            if missing:
                raise UserError(f'key column "{missing[0]}" not found', hint=f"have: {', '.join(schema.names)}")
            schema = pa.schema([schema.field(column) for column in self._key])
        format_ = FORMATS[self._source.format]
        document = format_.schema and format_.schema(schema, f"{name}_{part}")
        schema_id = self._schema_id(self._source, part, document) if document else None
        self._parts[key] = (JsonDecoder(schema), format_.encoder_of(schema, schema_id))
        return self._parts[key]


def _outgoing(form: LineFormat, number: int, line: bytes) -> Outgoing:
    try:
        return form.outgoing(line.decode())
    except UserError as error:
        raise UserError(f"record {number}: {error.message}", hint=error.hint) from error
    except (UnicodeError, RecursionError) as error:
        raise UserError(f"record {number}: not JSON: {error}") from error
