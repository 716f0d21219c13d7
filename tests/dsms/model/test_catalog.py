"""The catalog as an immutable value."""

from __future__ import annotations

import pytest

from dsms.model.catalog import Catalog
from dsms.model.objects import Stream
from operators.core.errors import UserError


def stream(name: str) -> Stream:
    return Stream(name=name, id="x", sql="", source="T", keys=())


def test_names_ignore_case_and_changes_return_new_catalogs() -> None:
    empty = Catalog()
    with_stream = empty.with_object(stream("RoomTempStr"))
    assert with_stream.find("roomtempstr") is with_stream.get("ROOMTEMPSTR")
    assert (empty.version, empty.objects, with_stream.version, with_stream.ids) == (0, {}, 1, 1)
    gone = with_stream.without(["ROOMtempSTR"])
    assert (gone.objects, gone.version, gone.ids, gone.next_id()) == ({}, 2, 1, "o2")


def test_unknown_names_are_answered_with_the_known_ones() -> None:
    with pytest.raises(UserError, match='"x" not found; nothing is registered yet'):
        Catalog().find("x")
    catalog = Catalog().with_object(stream("Rooms")).with_object(stream("Cars"))
    with pytest.raises(UserError, match='"Room" not found; have: Rooms$'):
        catalog.find("Room")
    with pytest.raises(UserError, match='"zzz" not found; have: Rooms, Cars$'):
        catalog.find("zzz")
    with pytest.raises(UserError, match='a stream named "Rooms" already exists'):
        catalog.with_object(stream("rooms"))
