"""The queries: an SQL text for each, and further texts for engines with other dialects."""

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from benchmarks.nexmark.streams import STREAMS, Stream

QUERIES = Path(__file__).parent / "queries"
EVERY_SECOND = "EverySecond"
#: The stream of whole seconds, to which a query may be synchronised.
SECONDS = f"CREATE STREAMED VIEW {EVERY_SECOND} AS SELECT Timepoint FROM R(clockStr) WHERE MOD(Timepoint, 1000) = 0"
_STREAM = re.compile(rf"\b({'|'.join(STREAMS)})\b")


@dataclass(frozen=True)
class Question:
    """A query over the streams, whose text is in a file of its name. `key` is the key of Flink's result, if its rows
    change."""

    name: str
    key: tuple[str, ...] = ()
    #: The columns of Flink's answer that do not depend on how ties are broken; () if no column depends on that.
    untied: tuple[str, ...] = ()

    @cached_property
    def text(self) -> str:
        """The text for this system."""
        return (QUERIES / f"{self.name}.sql").read_text().strip()

    @cached_property
    def streams(self) -> tuple[Stream, ...]:
        """The streams that the query reads."""
        return tuple(STREAMS[name] for name in dict.fromkeys(_STREAM.findall(_uncommented(self.text))))

    def over(self, suffix: str = "", synchronised: bool = False) -> str:
        """The text for this system over the streams with a suffix. If `synchronised`, results are those of the last
        whole second.

        >>> Question("q2").over("Few", synchronised=True)
        'SELECT auction, price FROM R[EverySecond](BidFew) WHERE MOD(auction, 123) = 0'
        """
        relation = rf"R[{EVERY_SECOND}](\1{suffix})" if synchronised else rf"\1{suffix}"
        return _STREAM.sub(relation, _uncommented(self.text))

    @cached_property
    def duckdb(self) -> str:
        """The text for DuckDB."""
        return self._other("duckdb")

    def flink_over(self, suffix: str = "") -> str:
        """The text for Flink over the tables with a suffix."""
        return _STREAM.sub(rf"\1{suffix}", _uncommented(self._other("flink")).replace('"', "`"))

    def _other(self, engine: str) -> str:
        own = QUERIES / f"{self.name}.{engine}.sql"
        return own.read_text().strip() if own.exists() else self.text


def _uncommented(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.startswith("--")).strip()


QUESTIONS = {
    question.name: question
    for question in (
        *(Question(f"q{number}") for number in range(4)),
        Question("q4", key=("category",)),
        Question("q5"),
        Question("q6", key=("id",)),
        Question("q7"),
        Question("q8"),
        Question("q9", key=("id",)),
        *(Question(f"q{number}") for number in range(10, 15)),
        Question("q15", key=("bid_day",)),
        Question("q16", key=("channel", "bid_day")),
        Question("q17", key=("auction", "bid_day")),
        Question("q18", key=("bidder", "auction"), untied=("auction", "bidder", "dateTime")),
        Question("q19", key=("auction", "place")),
        *(Question(f"q{number}") for number in range(20, 23)),
    )
}
