"""The demo's story in one process: its statements give the results in the paper."""

import pytest

from dsms.cli.notation import render_change
from dsms.demo.play import differences
from dsms.demo.story import SCENES, SOURCE
from dsms.testing import LocalSession


@pytest.fixture(params=[(1, None), (3, 1)], ids=["straight", "cut"])
def session(request) -> LocalSession:
    partitions, batch_records = request.param
    return LocalSession(partitions, batch_records)


def test_every_scene_gives_what_the_paper_prints(session):
    for scene in SCENES:
        for step in scene.steps:
            session.execute(step.sql)
        session.push(SOURCE, [{"RoomID": r.room, "Temperature": r.temperature, "ts": r.ts} for r in scene.readings])
        session.advance(scene.end)
        seen = {
            name: [render_change(op, row.values(), ts) for op, row, ts in session.changes(name)]
            for name in scene.expected
        }
        assert differences(scene, seen) == []


def test_a_difference_is_reported():
    scene = SCENES[0]
    seen = {name: list(changes) for name, changes in scene.expected.items()}
    seen["Inserts"] = []
    assert differences(scene, seen) == [
        "Inserts: expected +<a,100>1, +<b,75>2, +<c,80>3, +<a,95>4, +<b,85>5, got nothing"
    ]
