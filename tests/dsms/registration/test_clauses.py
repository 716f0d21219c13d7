"""The settings that each clause stands for."""

from __future__ import annotations

import pytest

from dsms.model.statements import Clause, Place
from dsms.registration.clauses import result_settings, source_settings
from operators.core.errors import SqlError


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
        ("TAGGED NONE", "tagged", "none"),
        ("TAGGED BY HEADER", "tagged", "header"),
        ("TAGGED BY op", "tagged", "op"),
        ("REGISTRY r", "registry", "r"),
    ],
)
def test_source_clauses(text: str, field: str, value: object) -> None:
    name, *words = text.split()
    settings, defaults = source_settings([Clause(name.lower(), tuple(words), Place())])
    assert settings == {field: value}
    assert not any(default.startswith(name) for default in defaults)


def test_result_clauses() -> None:
    clauses = [
        Clause("format", ("AVRO",), Place()),
        Clause("topic", ("x",), Place()),
        Clause("partitions", ("2",), Place()),
    ]
    assert result_settings(clauses) == {"format": "avro", "topic": "x", "partitions": 2}


def test_a_password_in_a_registry_is_refused_and_not_repeated() -> None:
    with pytest.raises(SqlError, match="REGISTRY must not hold a password") as refused:
        source_settings([Clause("registry", ("http://ann:pw4711@host",), Place(2, 5))])
    assert "pw4711" not in str(refused.value) and (refused.value.line, refused.value.column) == (2, 5)
    settings, _ = source_settings([Clause("registry", ("http://ann:${secret:p}@host",), Place())])
    assert settings == {"registry": "http://ann:${secret:p}@host"}
