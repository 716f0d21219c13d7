"""Recognises this project's errors in the text of a Spark error."""

from __future__ import annotations

import pytest

from dsms.spark.errors import SparkFailed, WorkerDied, reason_of
from operators.core.errors import DsmsError, ExternalError, Fenced

TRACEBACK = "[STREAM_FAILED] failed: Traceback (most recent call last):\n  File main.py, line 7, in main\n"


@pytest.mark.parametrize(
    ("text", "kind", "reason"),
    [
        ("operators.core.errors.Fenced: a newer owner has started", Fenced, "a newer executor runs the fragment"),
        ("operators.core.errors.Fenced", Fenced, "a newer executor runs the fragment"),
        ('operators.core.errors.ExternalError: no column "Fenced"', ExternalError, 'no column "Fenced"'),
        ('java.lang.RuntimeException: no column "Fenced"', SparkFailed, "the fragment's query failed"),
        ("Python worker exited unexpectedly (Fenced)", WorkerDied, "a worker died"),
    ],
)
def test_an_error_is_fenced_only_by_the_name_of_its_class(text: str, kind: type[DsmsError], reason: str) -> None:
    found = reason_of(RuntimeError(f"{TRACEBACK}{text}\n\tat org.apache.spark.X"))
    assert type(found) is kind and reason in str(found)
