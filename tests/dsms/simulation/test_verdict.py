"""The verdict names each record that is lost, twice, foreign or out of order."""

from __future__ import annotations

from dsms.simulation.verdict import Seen, differences

_ONE, _TWO, _OTHER = Seen(b"k", b"1", ()), Seen(b"k", b"2", ()), Seen(b"k", b"3", (("dsms-op", b"u"),))


def test_equal_topics_do_not_differ() -> None:
    assert differences({"q": {0: [_ONE, _TWO]}}, {"q": {0: [_ONE, _TWO]}}) == []
    assert differences({}, {}) == []


def test_each_wrong_record_is_named() -> None:
    found, expected = {"q": {0: [_ONE, _ONE], 1: [_OTHER]}}, {"q": {0: [_ONE]}, "r": {0: [_TWO]}}
    assert differences(found, expected) == [
        'topic "q" partition 0: 1 record twice: k 1',
        'topic "q" partition 1: 1 record foreign: k 3 dsms-op=u',
        'topic "r" partition 0: 1 record lost: k 2',
    ]


def test_the_order_counts_except_that_of_dead_letters() -> None:
    (problem,) = differences({"q": {0: [_ONE, _TWO]}}, {"q": {0: [_TWO, _ONE]}})
    assert problem == 'topic "q" partition 0: the order differs from record 0 on: k 1, not k 2'
    dead = "dsms.s.dead-letters"
    assert differences({dead: {0: [_ONE, _TWO]}}, {dead: {0: [_TWO, _ONE]}}) == []
