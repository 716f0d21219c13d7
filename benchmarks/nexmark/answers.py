"""The relation in a result topic, read as by any consumer: read-committed, the last value of each key, then decoded.

fastavro decodes, because the measured code must not verify itself.
"""

import io
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import fastavro
import polars as pl

from benchmarks.results import committed_messages
from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.names import OP_HEADER
from operators.core.errors import InternalError

_UNITS = {"timestamp-millis": "ms", "timestamp-micros": "us"}
_DELETE = b"-"
_MARKER = bytes(16)


def final_values(kafka: KafkaSettings, topic: str) -> list[bytes]:
    """The values at the end: the last value of each key, unless it was deleted, and the values without a key that were
    not retracted.

    Raises InternalError if a value without a key was retracted more often than it was inserted.
    """
    last: dict[bytes, bytes | None] = {}
    counts: Counter[bytes] = Counter()
    for messages in committed_messages(kafka, topic):
        for message in messages:
            key, value = message.key(), message.value()
            if key is not None:
                last[key] = value
            else:
                counts[value] += -1 if _operation(message) == _DELETE else 1
    if any(count < 0 for count in counts.values()):
        raise InternalError(f'"{topic}" has retracted more than it inserted')
    return [*(value for value in last.values() if value is not None), *counts.elements()]


def _operation(message: Any) -> bytes:
    headers: dict[str, bytes] = dict(message.headers() or ())
    return headers.get(OP_HEADER, b"+")


def decoded(values: Sequence[bytes], writer: dict[str, Any], prefix: int, like: pl.DataFrame) -> pl.DataFrame:
    """The rows of Avro values, with `prefix` bytes before each body; `like` has the columns of an empty answer.

    The values are read as one block of an Avro file, with the first value appended once more. If bytes are left over in
    a value, the last row is not decoded as the first row was, and an InternalError is raised.

    >>> writer = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "long"}]}
    >>> decoded([bytes([4]), bytes([6])], writer, 0, pl.DataFrame({"a": [0]}))["a"].to_list()
    [2, 3]
    """
    if not values:
        return like.clear()
    schema, file = _without_instants(writer), io.BytesIO()
    fastavro.writer(file, schema, [], sync_marker=_MARKER)
    body = b"".join(value[prefix:] for value in (*values, values[0]))
    file.write(_long(len(values) + 1) + _long(len(body)) + body + _MARKER)
    file.seek(0)
    rows = list(fastavro.reader(file))
    if rows.pop() != rows[0]:
        raise InternalError("bytes are left over after the last row")
    frame = pl.DataFrame({field["name"]: [row[field["name"]] for row in rows] for field in schema["fields"]})
    return frame.with_columns(pl.col(name).cast(pl.Datetime(unit)) for name, unit in _instants(writer))


def _long(number: int) -> bytes:
    """A long in Avro's encoding."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, "long", number)
    return out.getvalue()


def _instants(writer: dict[str, Any]) -> Iterable[tuple[str, Any]]:
    for field in writer["fields"]:
        for kind in _kinds(field["type"]):
            if isinstance(kind, dict) and kind.get("logicalType") in _UNITS:
                yield field["name"], _UNITS[kind["logicalType"]]


def _without_instants(writer: dict[str, Any]) -> dict[str, Any]:
    """The schema with plain longs in place of instants."""
    fields = [
        {"name": field["name"], "type": [_number(kind) for kind in _kinds(field["type"])]}
        if isinstance(field["type"], list)
        else {"name": field["name"], "type": _number(field["type"])}
        for field in writer["fields"]
    ]
    return {**writer, "fields": fields}


def _kinds(kind: Any) -> list[Any]:
    return kind if isinstance(kind, list) else [kind]


def _number(kind: Any) -> Any:
    return "long" if isinstance(kind, dict) and kind.get("logicalType") in _UNITS else kind
