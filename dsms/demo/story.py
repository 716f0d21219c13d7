"""The statements and tuples of the demo, and the results that the paper prints for them, as literals."""

from __future__ import annotations

from dataclasses import dataclass

SOURCE = "TemperatureSource"


@dataclass(frozen=True, slots=True)
class Step:
    """A statement, and what it does."""

    sql: str
    about: str


@dataclass(frozen=True, slots=True)
class Reading:
    """A raw tuple <room, temperature>ts of TemperatureSource."""

    room: str
    temperature: int
    ts: int


@dataclass(frozen=True, slots=True)
class Scene:
    """A running example: statements, the tuples that arrive, and for each result the changes that the paper prints."""

    title: str
    about: str
    topic: str
    steps: tuple[Step, ...]
    readings: tuple[Reading, ...]
    expected: dict[str, tuple[str, ...]]

    @property
    def end(self) -> int:
        """The first instant after the last tuple.

        >>> SCENES[0].end
        6
        """
        return self.readings[-1].ts + 1


_STREAMS = (
    Step(
        "RoomTempStr: CREATE STREAM RoomTempStr OVER TemperatureSource KEY RoomID",
        "one row a room, which its tuples update",
    ),
    Step("TempStr: CREATE STREAM TempStr OVER TemperatureSource KEY NULL", "every tuple is a row of its own"),
)

SCENES = (
    Scene(
        "Example 1: one source, two tagged streams",
        "the same raw tuples, read as updates of rooms and as rows that are only added",
        "port5501",
        (
            Step(
                "REGISTER SOURCE TemperatureSource (char RoomID, int Temperature) From port5501 PARTITIONS 1",
                "a Kafka topic of JSON records; every clause left out has a default, which is reported",
            ),
            *_STREAMS,
            Step("Updates: select STREAMED * from ℜ(RoomTempStr)", "shows the changes of RoomTempStr"),
            Step("Inserts: select STREAMED * from ℜ(TempStr)", "shows the changes of TempStr"),
        ),
        (Reading("a", 100, 1), Reading("b", 75, 2), Reading("c", 80, 3), Reading("a", 95, 4), Reading("b", 85, 5)),
        {
            "Updates": ("+<a,100>1", "+<b,75>2", "+<c,80>3", "u<a,95>4", "u<b,85>5"),
            "Inserts": ("+<a,100>1", "+<b,75>2", "+<c,80>3", "+<a,95>4", "+<b,85>5"),
        },
    ),
    Scene(
        "Examples 3 and 4: hot rooms, and a query over a view",
        "a room enters (+), changes (u) and leaves (-) the answer; Q4 reads the view HotRooms1",
        "port5502",
        (
            Step(
                "DROP SOURCE TemperatureSource CASCADE",
                "drops the first example's source and everything that depends on it",
            ),
            Step(
                "REGISTER SOURCE TemperatureSource (char RoomID, int Temperature) From port5502 PARTITIONS 1",
                "the same source on another topic, for the tuples of the next example",
            ),
            *_STREAMS,
            Step("Rooms: select STREAMED * from ℜ(RoomTempStr)", "shows the tagged input"),
            Step(
                "Q3: select STREAMED RoomID, Temperature from ℜ(RoomTempStr) R where R.Temperature > 80",
                "the rooms above 80",
            ),
            Step(
                "create STREAMED view HotRooms1 as "
                "select RoomID, Temperature from ℜ(RoomTempStr) R where R.Temperature > 80",
                "the same as a view, for other queries to build on",
            ),
            Step(
                "Q4: select STREAMED RoomID, Temperature from ℜ(HotRooms1) R where R.Temperature > 100",
                "the rooms above 100, over the view",
            ),
        ),
        (
            Reading("a", 78, 1),
            Reading("a", 105, 2),
            Reading("b", 70, 3),
            Reading("c", 95, 4),
            Reading("a", 76, 5),
            Reading("c", 103, 6),
        ),
        {
            "Rooms": ("+<a,78>1", "u<a,105>2", "+<b,70>3", "+<c,95>4", "u<a,76>5", "u<c,103>6"),
            "Q3": ("+<a,105>2", "+<c,95>4", "-<a>5", "u<c,103>6"),
            "HotRooms1": ("+<a,105>2", "+<c,95>4", "-<a>5", "u<c,103>6"),
            "Q4": ("+<a,105>2", "-<a>5", "+<c,103>6"),
        },
    ),
)
