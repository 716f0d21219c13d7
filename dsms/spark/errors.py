"""Translates Spark's errors to those of `operators.core.errors`. Spark reports errors of other processes as text."""

from __future__ import annotations

import re

from operators.core.errors import DsmsError, ExternalError, Fenced


class SparkFailed(ExternalError):
    """Spark itself, or Python in one of its workers, failed, and not a system that the project's code called."""


class WorkerDied(SparkFailed):
    """A worker ended during its task, or did not have enough memory for it. The query that caused it is unknown."""


#: Spark 4's message about a worker that has ended, and the errors of Python, Arrow, Polars and the JVM if memory runs
#: out.
_DIED = re.compile(
    r"Python worker exited unexpectedly|^(?:\w+\.)*(?:Arrow)?MemoryError\b|memory allocation of \d+ bytes failed"
    r"|java\.lang\.OutOfMemoryError",
    re.MULTILINE,
)
#: The line of a traceback that names the error Fenced. The whole line is compared, because other text, such as a
#: column's name, may contain the word.
_FENCED = re.compile(rf"^{re.escape(Fenced.__module__)}\.{Fenced.__name__}(?::|$)", re.MULTILINE)
#: One of the project's errors in the text of Spark's error.
_OURS = re.compile(rf"^{re.escape(DsmsError.__module__)}\.\w+: (.+)$", re.MULTILINE)


def reason_of(error: BaseException | None) -> DsmsError:
    """The reason why Spark ended the query. The project's own errors are recognised by their names in the text.

    >>> str(reason_of(RuntimeError("[STREAM_FAILED] …\\noperators.core.errors.ExternalError: redis is full\\n at …")))
    'redis is full'
    >>> reason_of(RuntimeError("…SparkException: Python worker exited unexpectedly (crashed).\\n at …"))
    WorkerDied('a worker died: it crashed, or needed more memory than it may use')
    """
    text = str(error) if error is not None else "the query ended"
    if _FENCED.search(text) is not None:
        return Fenced("fenced: a newer executor runs the fragment")
    if (ours := _OURS.search(text)) is not None:
        return ExternalError(ours[1])
    if _DIED.search(text) is not None:
        return WorkerDied("a worker died: it crashed, or needed more memory than it may use", retryable=True)
    last = [line for line in text.splitlines() if line.strip()]
    return SparkFailed("the fragment's query failed: " + (" | ".join(last[:3])), retryable=True)
