"""Turns the clauses of sources, views and queries into settings; defaults of omitted clauses are reported."""

from __future__ import annotations

from collections.abc import Sequence

from connectors.credentials.secrets import check_no_secret, references
from connectors.formats.record_formats import FORMATS, RESULT_FORMATS
from dsms.model import statements as st
from dsms.model.instants import instant_of
from dsms.model.objects import DEFAULT_IDLE_MS
from dsms.model.sizes import parse_size
from dsms.model.statements import Clause
from operators.core.errors import SqlError, UserError

#: The value of START 'latest', which is resolved to an instant by looking at the sources.
LATEST = "latest"
#: The maximal number of digits of a count and of a distance between instants. Both fit into 64 bits, and so does a
#: distance added to an instant.
_COUNT_DIGITS, _DISTANCE_DIGITS = 9, 18
#: A duration with a unit is at most a hundred years.
_LONGEST_MS = 100 * 366 * 86_400_000
#: The number of a source record has ten bits for its partition; records of result topics have no such number.
_MAX_SOURCE_PARTITIONS, _MAX_RESULT_PARTITIONS = 1_024, 10_000
_UNITS = {"MILLISECOND": 1, "SECOND": 1_000, "MINUTE": 60_000, "HOUR": 3_600_000, "DAY": 86_400_000}
_SHORT = {"S": "SECONDS", "SEC": "SECONDS", "MIN": "MINUTES", "H": "HOURS"}
_STARTS: dict[str, object] = {"earliest": None, "latest": LATEST}


def source_settings(clauses: Sequence[Clause]) -> tuple[dict[str, object], tuple[str, ...]]:
    """The settings of a source by field name, and the defaults that were applied. Raises SqlError.

    >>> source_settings([])[1][0]
    'FORMAT JSON'
    """
    given = {clause.name: clause for clause in clauses}
    settings: dict[str, object] = {}
    for clause in clauses:
        settings.update(_SOURCE[clause.name](clause))
    if "format" in given and (operation := FORMATS[str(settings["format"])].operation) is not None:
        if "tagged" in given:
            why = f"records of FORMAT {str(settings['format']).upper()} contain their operation"
            raise _clause_error(given["tagged"], why, "omit TAGGED")
        settings["tagged"] = operation
        given["tagged"] = given["format"]
    return settings, tuple(text for name, text in _SOURCE_DEFAULTS.items() if name not in given)


def result_settings(clauses: Sequence[Clause]) -> dict[str, object]:
    """The settings of a view or query by field name. Raises SqlError."""
    settings: dict[str, object] = {}
    for clause in clauses:
        settings.update(_RESULT[clause.name](clause))
    return settings


def _source_format(clause: Clause) -> dict[str, object]:
    return {"format": _one_of(clause, list(FORMATS))}


def _result_format(clause: Clause) -> dict[str, object]:
    return {"format": _one_of(clause, RESULT_FORMATS)}


def _one_of(clause: Clause, formats: Sequence[str]) -> str:
    word = _word(clause).lower()
    if word in formats:
        return word
    wrong = (
        f"FORMAT {word.upper()} is only for sources, not for results" if word in FORMATS else f'unknown format "{word}"'
    )
    raise _clause_error(clause, wrong, f"have: {', '.join(formats).upper()}")


def _source_partitions(clause: Clause) -> dict[str, object]:
    return {"partitions": _partitions(clause, _MAX_SOURCE_PARTITIONS)}


def _result_partitions(clause: Clause) -> dict[str, object]:
    return {"partitions": _partitions(clause, _MAX_RESULT_PARTITIONS)}


def _partitions(clause: Clause, most: int) -> int:
    count = _number(clause, _word(clause))
    if not 1 <= count <= most:
        raise _clause_error(clause, f"PARTITIONS needs a number from 1 to {most}, not {count}")
    return count


def _shared(clause: Clause) -> dict[str, object]:
    return {"shared": _boolean(clause)}


def _weight(clause: Clause) -> dict[str, object]:
    weight = _float(clause)
    if not 0.0 < weight < float("inf"):
        raise _clause_error(clause, f'WEIGHT needs a positive number, not "{_word(clause)}"')
    return {"weight": weight}


def _state_memory(clause: Clause) -> dict[str, object]:
    return {"state_memory": _bytes(clause)}


def _memory(clause: Clause) -> dict[str, object]:
    return {"memory": _bytes(clause)}


def _bytes(clause: Clause) -> int | None:
    try:
        return parse_size(_word(clause), clause.name)
    except UserError as error:
        raise _clause_error(clause, error.message, error.hint) from error


def _fragments(clause: Clause) -> dict[str, object]:
    """A number, or AUTO: the query keeps its fragments and gets more when it falls behind."""
    if _word(clause).upper() == "AUTO":
        return {"fragments_by_load": True}
    count = _number(clause, _word(clause))
    if count < 1:
        raise _clause_error(clause, "FRAGMENTS needs a positive number, or AUTO")
    return {"fragments": count, "fragments_by_load": False}


def _fragment(clause: Clause) -> dict[str, object]:
    """The name of the fragment that runs the query, or AUTO: the load decides."""
    if _word(clause).upper() == "AUTO":
        return {"pinned": False}
    return {"fragment": _word(clause), "pinned": True}


def _join_order(clause: Clause) -> dict[str, object]:
    """AUTO, FIXED, DEFAULT, or for each tree of joins the numbers of its inputs, from 1, in the order of joining."""
    text = _word(clause)
    match text.upper():
        case "AUTO":
            return {"orders_by_statistics": True}
        case "FIXED":
            return {"orders_by_statistics": False, "next_join_orders": None}
        case "DEFAULT":
            return {"orders_by_statistics": False, "next_join_orders": ()}
    orders = tuple(
        tuple(_input_index(clause, number.strip()) for number in part.split(",")) for part in text.split(";")
    )
    return {"orders_by_statistics": False, "next_join_orders": orders}


def _input_index(clause: Clause, number: str) -> int:
    if not number.isdecimal() or len(number) > _COUNT_DIGITS or int(number) < 1:
        hint = "have: AUTO, FIXED, DEFAULT, or for each tree of joins the numbers of its inputs, such as '3, 1, 2'"
        raise _clause_error(clause, f'"{_word(clause)}" is not a valid JOIN_ORDER', hint)
    return int(number) - 1


def _max_error(clause: Clause) -> dict[str, object]:
    return {"max_error": _fraction(clause, "0.05 is 5 percent")}


def _max_loss(clause: Clause) -> dict[str, object]:
    return {"max_loss": _fraction(clause, "0.5 is half of the input")}


def _fraction(clause: Clause, example: str) -> float:
    fraction = _float(clause)
    if not 0.0 < fraction < 1.0:
        message = f'{clause.name.upper()} needs a number between 0 and 1, not "{_word(clause)}"'
        raise _clause_error(clause, message, example)
    return fraction


def _deadline(clause: Clause) -> dict[str, object]:
    words = _word(clause).split()
    unit = _SHORT.get(words[1].upper(), words[1]) if len(words) == 2 else ""
    return {"deadline": _duration(clause, [*words[:1], unit], bare=False)}


def _shed_where(clause: Clause) -> dict[str, object]:
    return {"shed_where": _word(clause)}


def _error_columns(clause: Clause) -> dict[str, object]:
    return {"error_columns": _boolean(clause)}


def _start(clause: Clause) -> dict[str, object]:
    """An instant, None for the beginning, or `LATEST`."""
    words = [word for word in clause.words if word.upper() != "TIMESTAMP"]
    text = "".join(words)
    if text.lower() in _STARTS:
        return {"start": _STARTS[text.lower()]}
    if (at := instant_of(text)) is None:
        hint = "have: 'earliest', 'latest', an instant, TIMESTAMP '2024-05-01 12:00:00'"
        raise _clause_error(clause, f'START needs an instant, not "{text}"', hint)
    return {"start": at}


def _timestamp(clause: Clause) -> dict[str, object]:
    words = [word.upper() for word in clause.words]
    if words == ["FROM", "RECORD"]:
        return {"timestamp": None}
    if words == ["LATENT"]:
        return {"timestamp": None, "latent": True}
    if len(words) == 2 and words[0] == "BY":
        return {"timestamp": clause.words[1]}
    raise _clause_error(
        clause, "invalid TIMESTAMP clause", "have: TIMESTAMP BY column, TIMESTAMP FROM RECORD, TIMESTAMP LATENT"
    )


def _slack(clause: Clause) -> dict[str, object]:
    return {"slack": _duration(clause, clause.words, bare=True)}


def _idle(clause: Clause) -> dict[str, object]:
    words = [word.upper() for word in clause.words]
    if words == ["NEVER"]:
        return {"idle_ms": None}
    if words[:1] == ["AFTER"]:
        return {"idle_ms": _duration(clause, clause.words[1:], bare=False)}
    raise _clause_error(clause, "invalid IDLE clause", "have: IDLE AFTER 5 SECONDS, IDLE NEVER")


def _ahead(clause: Clause) -> dict[str, object]:
    if [word.upper() for word in clause.words] == ["ANY"]:
        return {"ahead_ms": None}
    return {"ahead_ms": _duration(clause, clause.words, bare=False)}


def _tagged(clause: Clause) -> dict[str, object]:
    words = [word.upper() for word in clause.words]
    if words == ["NONE"]:
        return {"tagged": "none"}
    if words == ["BY", "HEADER"]:
        return {"tagged": "header"}
    if len(words) == 2 and words[0] == "BY":
        return {"tagged": clause.words[1]}
    raise _clause_error(clause, "invalid TAGGED clause", "have: TAGGED BY HEADER, TAGGED BY column, TAGGED NONE")


def _registry(clause: Clause) -> dict[str, object]:
    url = _word(clause)
    try:
        check_no_secret(url, "REGISTRY")
    except UserError as error:
        raise _clause_error(clause, error.message, error.hint) from error
    return {"registry": url}


def named_secrets(statement: st.Statement) -> tuple[str, ...]:
    """The names of the secrets that the clauses of a statement refer to."""
    return tuple(name for url in named_registries(statement) for name in references(url))


def named_registries(statement: st.Statement) -> tuple[str, ...]:
    """The registries that the clauses of a statement name."""
    written = getattr(statement, "clauses", ())
    clauses = written if isinstance(written, tuple) else ()  # CREATE AGGREGATE has a dict of its bodies
    return tuple(" ".join(clause.words) for clause in clauses if clause.name == "registry")


def _constraint(clause: Clause) -> dict[str, object]:
    """`ORDERED BY column [WITHIN k]`, `CLUSTERED BY column WITHIN k` and `column REFERENCES source (column) WITHIN k`,
    separated by commas."""
    parts: list[list[str]] = [[]]
    for word in clause.words:
        if word == ",":
            parts.append([])
        else:
            parts[-1].append(word)
    promises = [_promise(clause, part) for part in parts]
    for promise in promises:
        if sum(str(promise["column"]).lower() == str(other["column"]).lower() for other in promises) > 1:
            raise _clause_error(clause, f'CONSTRAINT names column "{promise["column"]}" twice')
    return {"constraints": promises}


def _promise(clause: Clause, words: list[str]) -> dict[str, object]:
    match [word.upper() for word in words]:
        case ["ORDERED", "BY", _]:
            return {"column": words[2], "k": None}
        case [("ORDERED" | "CLUSTERED") as kind, "BY", _, "WITHIN", _, *_]:
            return {"kind": kind.lower(), "column": words[2], "k": _duration(clause, words[4:], bare=True)}
        case [_, "REFERENCES", _, "(", _, ")", "WITHIN", _, *_]:
            k = _duration(clause, words[7:], bare=True)
            return {"kind": "references", "column": words[0], "other": words[2], "theirs": words[4], "k": k}
    have = "have: ORDERED BY a [WITHIN 10], CLUSTERED BY a WITHIN 5 SECONDS, a REFERENCES source (b) WITHIN 1 HOUR"
    raise _clause_error(clause, "invalid CONSTRAINT clause", have)


def _topic(clause: Clause) -> dict[str, object]:
    return {"topic": _word(clause)}


def _duration(clause: Clause, words: Sequence[str], *, bare: bool) -> int:
    """A duration in milliseconds; with `bare`, also a number without a unit, in the unit of the instants."""
    if len(words) == 1 and bare:
        return _number(clause, words[0], _DISTANCE_DIGITS)
    unit = words[1].upper() if len(words) == 2 else ""
    factor = 1 if unit == "MS" else _UNITS.get(unit.removesuffix("S"))
    if factor is None:
        raise _clause_error(clause, f"invalid duration in {clause.name.upper()}", "have: 500 MS, 5 SECONDS, 1 MINUTE")
    duration = _number(clause, words[0], _DISTANCE_DIGITS) * factor
    if duration > _LONGEST_MS:
        raise _clause_error(
            clause, f"{clause.name.upper()} is longer than a hundred years", "have: 500 MS, 5 SECONDS, 2 DAYS"
        )
    return duration


def _number(clause: Clause, word: str, digits: int = _COUNT_DIGITS) -> int:
    if not (word.isascii() and word.isdecimal()):
        raise _clause_error(clause, f'{clause.name.upper()} needs a number, not "{word}"')
    if len(word) > digits:
        raise _clause_error(clause, f"{clause.name.upper()} has a number with more than {digits} digits")
    return int(word)


def _word(clause: Clause) -> str:
    if len(clause.words) != 1:
        raise _clause_error(clause, f"{clause.name.upper()} takes one value")
    return clause.words[0]


def _boolean(clause: Clause) -> bool:
    word = _word(clause).upper()
    if word not in ("TRUE", "FALSE"):
        raise _clause_error(clause, f'{clause.name.upper()} must be TRUE or FALSE, not "{word}"')
    return word == "TRUE"


def _float(clause: Clause) -> float:
    """A number, or NaN for any other text; NaN fails every check of bounds."""
    try:
        return float(_word(clause))
    except ValueError:
        return float("nan")


def _clause_error(clause: Clause, message: str, hint: str = "") -> SqlError:
    return clause.place.error(message, hint)


_SOURCE = {
    "format": _source_format,
    "partitions": _source_partitions,
    "timestamp": _timestamp,
    "slack": _slack,
    "idle": _idle,
    "ahead": _ahead,
    "tagged": _tagged,
    "registry": _registry,
    "constraint": _constraint,
}
_RESULT = {
    "format": _result_format,
    "partitions": _result_partitions,
    "shared": _shared,
    "start": _start,
    "topic": _topic,
    "weight": _weight,
    "max_error": _max_error,
    "max_loss": _max_loss,
    "deadline": _deadline,
    "error_columns": _error_columns,
    "shed_where": _shed_where,
    "state_memory": _state_memory,
    "memory": _memory,
    "fragments": _fragments,
    "fragment": _fragment,
    "join_order": _join_order,
}
_SOURCE_DEFAULTS = {
    "format": "FORMAT JSON",
    "timestamp": "TIMESTAMP FROM RECORD (header dsms-ts, else the record's timestamp in ms)",
    "slack": "SLACK 0",
    "idle": f"IDLE AFTER {DEFAULT_IDLE_MS // 1000} SECONDS",
    "ahead": "AHEAD 1 DAY (of the record's own timestamp)",
    "tagged": "TAGGED BY HEADER (dsms-op)",
}
