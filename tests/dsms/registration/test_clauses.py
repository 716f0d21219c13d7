"""The settings that each clause determines."""

from __future__ import annotations

import pytest

from dsms.model.statements import Clause, TextLocation
from dsms.registration.clauses import result_settings, source_settings
from operators.core.errors import SqlError


def test_start_takes_every_instant_that_a_record_may_have() -> None:
    for at in (-4611686018427387903, 4611686018427387903):
        assert result_settings([Clause("start", (str(at),), TextLocation())]) == {"start": at}


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("FORMAT avro", "format", "avro"),
        ("PARTITIONS 12", "partitions", 12),
        ("TIMESTAMP BY Time", "timestamp", "Time"),
        ("TIMESTAMP FROM RECORD", "timestamp", None),
        ("SLACK 7", "slack", 7),
        ("SLACK 500 MS", "slack", 500),
        ("SLACK 1 MILLISECOND", "slack", 1),
        ("SLACK 5 SECONDS", "slack", 5_000),
        ("SLACK 1 MINUTE", "slack", 60_000),
        ("SLACK 2 hours", "slack", 7_200_000),
        ("SLACK 1 DAY", "slack", 86_400_000),
        ("IDLE NEVER", "idle_ms", None),
        ("IDLE AFTER 2 SECONDS", "idle_ms", 2_000),
        ("AHEAD ANY", "ahead_ms", None),
        ("AHEAD 3 HOURS", "ahead_ms", 10_800_000),
        ("TAGGED NONE", "tagged", "none"),
        ("TAGGED BY HEADER", "tagged", "header"),
        ("TAGGED BY op", "tagged", "op"),
        ("REGISTRY r", "registry", "r"),
    ],
)
def test_source_clauses(text: str, field: str, value: object) -> None:
    name, *words = text.split()
    settings, defaults = source_settings([Clause(name.lower(), tuple(words), TextLocation())])
    assert settings == {field: value}
    assert not any(default.startswith(name) for default in defaults)


def test_result_clauses() -> None:
    clauses = [
        Clause("format", ("AVRO",), TextLocation()),
        Clause("topic", ("x",), TextLocation()),
        Clause("partitions", ("2",), TextLocation()),
    ]
    assert result_settings(clauses) == {"format": "avro", "topic": "x", "partitions": 2}


def test_a_password_in_a_registry_is_refused_and_not_repeated() -> None:
    with pytest.raises(SqlError, match="REGISTRY must not contain a password") as refused:
        source_settings([Clause("registry", ("http://ann:pw4711@host",), TextLocation(2, 5))])
    assert "pw4711" not in str(refused.value) and (refused.value.line, refused.value.column) == (2, 5)
    settings, _ = source_settings([Clause("registry", ("http://ann:${secret:p}@host",), TextLocation())])
    assert settings == {"registry": "http://ann:${secret:p}@host"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SLACK 5 M", "invalid duration in SLACK; have: 500 MS, 5 SECONDS, 1 MINUTE"),
        ("SLACK 5 MSS", "invalid duration in SLACK; have: 500 MS, 5 SECONDS, 1 MINUTE"),
        ("IDLE AFTER 5 M", "invalid duration in IDLE; have: 500 MS, 5 SECONDS, 1 MINUTE"),
        ("AHEAD 5 m", "invalid duration in AHEAD; have: 500 MS, 5 SECONDS, 1 MINUTE"),
        ("SLACK 9999999999999 DAYS", "SLACK is longer than a hundred years"),
        ("SLACK 3162240000001 MS", "SLACK is longer than a hundred years"),
        ("SLACK 1000000000000000000", "SLACK has a number with more than 18 digits"),
        ("SLACK -1", 'SLACK needs a number, not "-1"'),
        ("SLACK ²", 'SLACK needs a number, not "²"'),
        ("SLACK ٣", 'SLACK needs a number, not "٣"'),
        ("IDLE AFTER 99999999999999999999 DAYS", "IDLE has a number with more than 18 digits"),
        ("IDLE AFTER 36601 DAYS", "IDLE is longer than a hundred years"),
        ("PARTITIONS 0", "PARTITIONS needs a number from 1 to 1024, not 0"),
        ("PARTITIONS 1025", "PARTITIONS needs a number from 1 to 1024, not 1025"),
        ("PARTITIONS 99999999999999999999", "PARTITIONS has a number with more than 9 digits"),
        ("CONSTRAINT CLUSTERED BY a WITHIN 9999999999999 DAYS", "CONSTRAINT is longer than a hundred years"),
        ("CONSTRAINT ORDERED BY a WITHIN 1000000000000000000", "CONSTRAINT has a number with more than 18 digits"),
    ],
)
def test_numbers_of_sources_have_bounds(text: str, message: str) -> None:
    name, *words = text.split()
    with pytest.raises(SqlError, match=message):
        source_settings([Clause(name.lower(), tuple(words), TextLocation())])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("PARTITIONS 10001", "PARTITIONS needs a number from 1 to 10000"),
        ("FRAGMENTS 1000000000", "FRAGMENTS has a number with more than 9 digits"),
        ("FRAGMENTS 0", "FRAGMENTS needs a positive number, or AUTO"),
        ("START 9223372036854775807", "START needs an instant"),
        ("START 4611686018427387904", "START needs an instant"),
        ("START -4611686018427387904", "START needs an instant"),
        ("START 99999999999999999999", "START needs an instant"),
        ("JOIN_ORDER 1,9999999999", '"1,9999999999" is not a valid JOIN_ORDER'),
        ("WEIGHT 1e999", "WEIGHT needs a positive number"),
        ("WEIGHT nan", "WEIGHT needs a positive number"),
        ("MAX_ERROR 1", "MAX_ERROR needs a number between 0 and 1"),
        ("MEMORY 99999999999999999999 GB", "memory needs a size"),
        ("STATE_MEMORY 2000000000 GiB", "state_memory needs a size"),
    ],
)
def test_numbers_of_results_have_bounds(text: str, message: str) -> None:
    name, _, words = text.partition(" ")
    with pytest.raises(SqlError, match=message):
        result_settings([Clause(name.lower(), (words,), TextLocation())])


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("SLACK 36600 DAYS", "slack", 36_600 * 86_400_000),
        ("SLACK 999999999999999999", "slack", 10**18 - 1),
        ("IDLE AFTER 36600 DAYS", "idle_ms", 36_600 * 86_400_000),
        ("PARTITIONS 1024", "partitions", 1_024),
    ],
)
def test_the_greatest_numbers(text: str, field: str, value: int) -> None:
    name, *words = text.split()
    assert source_settings([Clause(name.lower(), tuple(words), TextLocation())])[0] == {field: value}
