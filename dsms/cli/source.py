"""`dsms source infer`: a statement that reads a topic, proposed from some of its records."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import pyarrow as pa
import typer

from connectors.formats.calendar_text import microseconds
from connectors.formats.inference import Guess, guessed_columns
from connectors.formats.type_names import type_name
from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.client.topics import earliest, latest, partitions_of
from connectors.kafka.records.log_reader import LogReader
from connectors.kafka.records.partition_readers import OffsetRange
from dsms.cli.cluster import DEFAULT_DATA_DIR, Coordinator, DataDir, connect, kafka_settings
from dsms.cli.output import note
from operators.core.errors import DsmsError, UserError
from operators.core.quoting import quoted_identifier

source = typer.Typer(no_args_is_help=True, help="Propose the statements that read a topic.")
#: Numbers in this range, in a column whose name suggests a time, are read as milliseconds since 1970: 2001 to 2100.
_MILLISECONDS = range(10**12, 41 * 10**11)
#: A column that decreases by more milliseconds within a partition is not the time at which records are made.
_FARTHEST_BACK = 3_600_000
_TIMES = ("ts", "time", "at", "date", "when")


@source.command("infer")
def infer(
    topic: Annotated[str, typer.Argument(help="Topic to look at.")],
    records: Annotated[
        int, typer.Option(min=1, max=100_000, help="Number of records to look at in each partition.")
    ] = 1000,
    name: Annotated[
        str | None, typer.Option(help="Name of the stream; by default made from the name of the topic.")
    ] = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    coordinator: Coordinator = None,
) -> None:
    """Propose a REGISTER SOURCE and a CREATE STREAM for a topic, from its last records.

    Types, NOT NULL, the time and the key are guesses: read them before you run them. Nothing is registered.

    Example: dsms source infer shop.orders > orders.sql && dsms sql -f orders.sql
    """
    with connect(coordinator, data_dir) as api:
        read = list(last_records(kafka_settings(api), topic, records))
    made = proposal(topic, read, name)
    typer.echo(made.sql)
    for text in made.notes:
        note(text)


@dataclass(frozen=True)
class Sample:
    """A record: its partition, key and value."""

    partition: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True)
class Proposal:
    """The proposed statements, and notes on them for the user."""

    sql: str
    notes: list[str] = field(default_factory=list)


def last_records(settings: KafkaSettings, topic: str, count: int) -> Iterator[Sample]:
    """The last `count` committed records of each partition. Raises UserError if the topic has no records."""
    admin = settings.admin()
    places = [(topic, partition) for partition in partitions_of(admin, topic)]
    begin, end = earliest(admin, places), latest(admin, places)
    ranges = [OffsetRange(*place, max(begin[place], end[place] - count), end[place]) for place in places]
    full = [wanted for wanted in ranges if wanted.start < wanted.end]
    if not full:
        missing = "does not exist" if not places else "has no records"
        raise UserError(f'topic "{topic}" {missing}', hint="publish some records first")
    reader = LogReader(settings)
    try:
        for wanted, pieces in zip(full, reader.read(full), strict=True):
            for piece in pieces:
                if isinstance(piece, DsmsError):
                    raise piece
                for key, value in zip(piece.keys(), piece.values(), strict=True):
                    yield Sample(wanted.partition, key, value)
    finally:
        reader.close()


def proposal(topic: str, samples: Sequence[Sample], name: str | None = None) -> Proposal:
    """Statements that read records such as these.

    >>> rows = [b'{"room": "a", "t": 31.5, "ts": 1764230400000}', b'{"room": "b", "t": null, "ts": 1764230401000}']
    >>> print(proposal("shop.rooms", [Sample(0, b'{"room": "a"}', row) for row in rows]).sql)
    REGISTER SOURCE shop_rooms_source (room VARCHAR NOT NULL, t DOUBLE)
        FROM "shop.rooms" TIMESTAMP BY ts;
    CREATE STREAM shop_rooms OVER shop_rooms_source KEY room;
    """
    name = name or "".join(letter if letter.isalnum() else "_" for letter in topic).strip("_") or "topic"
    form, rows, notes = _rows(samples)
    guesses = guessed_columns([row for _, row in rows])
    left_out = {guess.name: why for guess in guesses if (why := _unusable(guess, guesses)) is not None}
    columns = [guess for guess in guesses if guess.name not in left_out]
    if not columns:
        raise UserError(
            f'no column can be inferred from the records of topic "{topic}"', hint="; ".join(left_out.values())
        )
    notes += [f'"{name}" is left out: {why}' for name, why in left_out.items()]
    # a column named TS cannot be declared, but its values can be the instants
    timed = [*columns, *(guess for guess in guesses if guess.name.upper() == "TS" and guess.kind == pa.int64())]
    clauses = [*([f"FORMAT {form}"] if form != "JSON" else []), *_time(form, timed, rows)]
    key = _key(samples, columns)
    if form == "CSV":
        notes.append("replace the names c1, c2, …: the columns are in the order of the fields")
    declared = ", ".join(_declared(guess, needed=form == "JSON" or guess.name in key) for guess in columns)
    statement = f"REGISTER SOURCE {_name(name + '_source')} ({declared})\n    FROM {quoted_identifier(topic)}"
    of_key = ", ".join(map(_name, key)) or "NULL"
    stream = f"CREATE STREAM {_name(name)} OVER {_name(name + '_source')} KEY {of_key};"
    return Proposal(f"{' '.join([statement, *clauses])};\n{stream}", notes)


def _unusable(guess: Guess, guesses: Sequence[Guess]) -> str | None:
    """Why a field cannot be a column; None if it can."""
    if guess.kind is None:
        return "its values are of several types, or all NULL"
    if guess.name.upper() == "TS" or guess.name.startswith("__"):
        return "the name is reserved"
    if not guess.name.replace("-", "_").isidentifier():
        return "it is not a valid column name"
    first = next(other for other in guesses if other.name.lower() == guess.name.lower())
    return None if first is guess else f'it differs from "{first.name}" only in case'


_Rows = list[tuple[int, dict[str, Any]]]


def _rows(samples: Sequence[Sample]) -> tuple[str, _Rows, list[str]]:
    """The format of the records, their rows with partitions, and notes for the user. Raises UserError if none fits."""
    values = [(sample.partition, sample.value) for sample in samples if sample.value is not None]
    if any(value[:1] == b"\0" for _, value in values):
        hint = "use FORMAT AVRO, with the columns of the schema that GET /schemas/ids/{id} of the registry shows"
        raise UserError("the records look like Avro", hint=hint)
    objects = [(partition, row) for partition, value in values if (row := _object(value)) is not None]
    events = [(partition, row) for partition, event in objects if (row := _changed(event)) is not None]
    others = len(values) - len(objects)
    if events and all(_is_event(event) for _, event in objects):
        return "DEBEZIUM", events, [f"{others} records are not JSON objects"] if others else []
    if objects:
        return "JSON", objects, [f"{others} records are not JSON objects"] if others else []
    lines = [(partition, _fields(value)) for partition, value in values]
    if not lines or len({len(fields) for _, fields in lines}) > 1:
        raise UserError(
            "the records are neither JSON objects nor CSV lines with equally many fields",
            hint="write REGISTER SOURCE yourself",
        )
    return "CSV", [(partition, fields) for partition, fields in lines], []


def _object(value: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(value)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def _envelope(event: dict[str, Any]) -> dict[str, Any]:
    nested = event.get("payload")
    return nested if isinstance(nested, dict) else event


def _is_event(event: dict[str, Any]) -> bool:
    """Whether an object is a change event of Debezium: it has an operation and a source."""
    return {"op", "source"} <= _envelope(event).keys()


def _changed(event: dict[str, Any]) -> dict[str, Any] | None:
    """The row of a change event of Debezium; None if it has none."""
    row = _envelope(event).get("after") or _envelope(event).get("before")
    return row if _is_event(event) and isinstance(row, dict) else None


def _fields(value: bytes) -> dict[str, Any]:
    """The fields of a line of CSV as c1, c2, …; text that the CSV decoder reads as a number is a number."""
    try:
        texts = next(csv.reader([value.decode().rstrip("\r\n")], strict=True), [])
    except (csv.Error, UnicodeDecodeError) as error:
        raise UserError(f"the records are neither JSON objects nor lines of CSV: {error}") from error
    return {f"c{at}": _number(text) for at, text in enumerate(texts, 1)}


def _number(text: str) -> Any:
    """A field as a number where the CSV decoder reads one. Text with leading zeros is a code and stays text."""
    if re.fullmatch(r"-?(0|[1-9]\d{0,17})", text):
        return int(text)
    return float(text) if re.fullmatch(r"-?(0|[1-9]\d*)\.\d+([eE][+-]?\d{1,2})?", text) else text or None


def _time(form: str, columns: Sequence[Guess], rows: _Rows) -> list[str]:
    """The clauses for instants: they name the column that is never NULL, could be a time, and decreases least often."""
    if form == "DEBEZIUM":
        return ["TIMESTAMP BY ts_ms"]
    fits = [guess for guess in columns if not guess.nullable and _is_time(guess, rows)]
    every = {guess.name: _backwards(guess.name, rows) for guess in fits}
    backwards = {name: back for name, back in every.items() if back[1] <= _FARTHEST_BACK}
    if not backwards:
        return []
    best = min(backwards, key=lambda name: backwards[name][0])
    slack = -(-backwards[best][1] // 1000)
    return [f"TIMESTAMP BY {_name(best)}", *([f"SLACK {slack} SECONDS"] if slack else [])]


def _is_time(guess: Guess, rows: _Rows) -> bool:
    if guess.kind == pa.timestamp("us"):
        return True
    named = any(part in guess.name.lower() for part in _TIMES)
    return guess.kind == pa.int64() and named and all(row[guess.name] in _MILLISECONDS for _, row in rows)


def _backwards(name: str, rows: _Rows) -> tuple[int, int]:
    """How often a column decreases within a partition, and by how much at most, in milliseconds."""
    high: dict[int, int] = {}
    back = []
    for partition, row in rows:
        value = row[name]
        at = value if isinstance(value, int) else (microseconds(value) or 0) // 1000
        if at < high.get(partition, at):
            back.append(high[partition] - at)
        high[partition] = max(at, high.get(partition, at))
    return len(back), max(back, default=0)


def _key(samples: Sequence[Sample], columns: Sequence[Guess]) -> list[str]:
    """The fields of the records' keys, if all keys are JSON objects with the same fields and each field is a column."""
    keys = [_object(sample.key) for sample in samples if sample.key is not None]
    if not keys or len(keys) < len(samples) or None in keys:
        return []
    rows = [key["payload"] if isinstance(key.get("payload"), dict) else key for key in keys if key is not None]
    names = set(rows[0])
    known = {guess.name for guess in columns if guess.kind is not None and not pa.types.is_nested(guess.kind)}
    return list(rows[0]) if names and names <= known and all(set(row) == names for row in rows) else []


def _declared(guess: Guess, *, needed: bool) -> str:
    assert guess.kind is not None
    kind = "VARCHAR" if guess.kind == pa.string() else type_name(guess.kind)
    return f"{_name(guess.name)} {kind}{' NOT NULL' if needed and not guess.nullable else ''}"


def _name(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else quoted_identifier(name)
