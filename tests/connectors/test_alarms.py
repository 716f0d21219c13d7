"""Alarms count each record once, and are kept for a limited number of places; any bytes are a value or broken."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.alarms import MAX_ALARMS, Alarm, Alarms
from operators.core.decoding import Int64, Malformed, Natural, decoded, natural_of, text_of
from operators.core.frame_ipc import frame_to_ipc, untrusted_frame


def test_a_log_that_is_read_again_raises_nothing_again() -> None:
    told: list[Alarm] = []
    alarms = Alarms(told.append, lambda: 5.0)
    for upto in (3, 9, 9):
        for offset in range(0, upto, 3):
            alarms.raise_at("t", "empty", 0, offset)
    alarms.raise_at("t", "empty", 1, 4)
    assert alarms.all() == (Alarm("t", "empty", 0, 0, 6, 3, 5.0), Alarm("t", "empty", 1, 4, 4, 1, 5.0))
    assert told == [Alarm("t", "empty", 0, 0, 0, 1, 5.0), Alarm("t", "empty", 1, 4, 4, 1, 5.0)]


def test_cleared_alarm_is_removed() -> None:
    alarms = Alarms()
    alarms.raise_at("key", "empty")
    alarms.raise_at("other", "empty")
    alarms.clear("key")
    assert [alarm.place for alarm in alarms.all()] == ["other"]


def test_places_beyond_the_most_are_only_counted() -> None:
    alarms = Alarms()
    for number in range(MAX_ALARMS + 7):
        alarms.raise_at(f"key {number}", "empty" * 1000)
    assert len(alarms.all()) == MAX_ALARMS and alarms.dropped == 7
    assert max(len(alarm.reason) for alarm in alarms.all()) == 300


@given(st.binary(max_size=200), st.sampled_from([dict[str, int], tuple[Natural, Int64], list[float], str, Any]))
@pytest.mark.parametrize("form", ["json", "msgpack"])
def test_any_bytes_give_a_value_or_broken(form: Any, body: bytes, kind: Any) -> None:
    try:
        decoded(body, kind, form)
    except Malformed as error:
        assert str(error)


@pytest.mark.parametrize("body", [b"[" * 200_000, b'{"a":' * 200_000, b"\x91" * 200_000, b"9" * 100_000])
@pytest.mark.parametrize("form", ["json", "msgpack"])
def test_bombs_are_broken_or_decoded(form: Any, body: bytes) -> None:
    try:
        decoded(body, Any, form)
    except Malformed as error:
        assert len(str(error)) < 200


@pytest.mark.parametrize("text", [b"[9223372036854775808, 0]", b"[-1, 0]", b"[0, -9223372036854775809]", b"[1, 1e400]"])
def test_numbers_beyond_64_bits_are_broken(text: bytes) -> None:
    with pytest.raises(Malformed):
        decoded(text, tuple[Natural, Int64])


@given(st.text())
def test_any_text_gives_a_number_or_broken(text: str) -> None:
    try:
        assert str(natural_of(text)) == (text.lstrip("0") or "0")
    except Malformed:
        assert not text.isdecimal() or not text.isascii() or len(text) > 18


@given(st.binary())
def test_any_bytes_give_text_or_broken(data: bytes) -> None:
    try:
        assert text_of(data).encode() == data
    except Malformed:
        assert data.decode(errors="ignore").encode() != data


FRAME = pl.DataFrame({"k": [1, 2, 3], "t": ["x", None, "z"], "b": [True, None, False]})
BLOB = frame_to_ipc(FRAME)


@given(st.data())
def test_any_bytes_give_a_frame_or_broken(data: st.DataObject) -> None:
    """Also bytes that differ from those of a frame in a few places; Polars itself panics at some of them."""
    changed = bytearray(BLOB[: data.draw(st.integers(0, len(BLOB)))])
    if changed:
        places = st.tuples(st.integers(0, len(changed) - 1), st.integers(0, 255))
        for at, byte in data.draw(st.lists(places, max_size=6)):
            changed[at] = byte
    try:
        assert isinstance(untrusted_frame(bytes(changed)), pl.DataFrame)
    except Malformed as error:
        assert str(error)


def test_a_sound_frame_is_read() -> None:
    assert untrusted_frame(BLOB).equals(FRAME)
    large = pl.DataFrame({"a": [2**100]}, schema={"a": pl.Int128})
    assert untrusted_frame(frame_to_ipc(large)).equals(large)
