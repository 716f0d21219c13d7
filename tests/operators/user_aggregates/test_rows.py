"""Rows of a table: their indexes, their changes since they were loaded, and their limit."""

import pytest

import operators.user_aggregates.rows as rows_module
from operators.user_aggregates.rows import LimitReached, Rows


def test_an_index_follows_inserts_updates_and_deletes() -> None:
    table = Rows([(0,), (0, 1)])
    for row in (["a", 1], ["b", 1], ["a", 2]):
        table.insert(row)
    table.update(1, ["a", 9])
    table.delete(0)
    assert list(table.find[0](("a",), ())) == [(1, ["a", 9]), (2, ["a", 2])]
    assert list(table.find[1](("a", 2), ())) == [(2, ["a", 2])]
    assert table.find[0](("b",)) is None


def test_changed_rows_keep_their_loaded_values() -> None:
    table = Rows([], [(4, ["x"]), (7, ["y"])])
    table.update(4, ["z"])
    table.update(4, ["w"])
    table.delete(7)
    table.insert(["new"])
    assert table.before == {4: ("x",), 7: ("y",), 8: None}
    assert table.rows == {4: ["w"], 8: ["new"]}


def test_a_table_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_module, "MAX_ROWS", 2)
    table = Rows([], [(0, [1]), (1, [2])])
    with pytest.raises(LimitReached, match="more than 2 rows"):
        table.insert([3])


def test_index_of_a_key_with_one_then_several_then_one_row() -> None:
    table = Rows([(0,)], [(0, ["a", 1])])
    alone = table.find[0](("a",))
    table.insert(["a", 2])
    assert alone == [(0, ["a", 1])]
    assert list(table.find[0](("a",), ())) == [(0, ["a", 1]), (1, ["a", 2])]
    table.delete(0)
    assert list(table.find[0](("a",), ())) == [(1, ["a", 2])]
    table.update(1, ["b", 3])
    assert (table.find[0](("a",)), table.find[0](("b",))) == (None, [(1, ["b", 3])])
    table.delete(1)
    assert table.find[0](("b",)) is None
