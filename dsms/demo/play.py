"""Plays a scene: runs its statements, sends its tuples one by one, and prints each with the changes that it causes."""

from __future__ import annotations

from connectors.formats.record_codec import JsonCodec
from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.records.publish import Outgoing, Publisher
from dsms.cli.api_client import ApiClient
from dsms.cli.notation import render_change
from dsms.demo.results import Results
from dsms.demo.screen import Screen
from dsms.demo.story import Reading, Scene


def play(scene: Scene, api: ApiClient, kafka: KafkaSettings, screen: Screen) -> list[str]:
    """Runs a scene; returns the differences from the results in the paper."""
    screen.title(scene.title)
    screen.aside(scene.about)
    _register(scene, api, screen)
    screen.line()
    screen.line(
        "Tuples arrive one by one; each row is printed once the source has passed its instant, which makes it final."
    )
    screen.row(["arrived", *scene.expected])
    seen: dict[str, list[str]] = {name: [] for name in scene.expected}
    with Results(api, kafka, tuple(scene.expected)) as results:
        publisher = Publisher(kafka, scene.topic)
        for at, reading in enumerate(scene.readings):
            publisher.send(_outgoing(reading))
            publisher.flush()
            if at:
                _final(scene, at - 1, results, screen, seen)
        publisher.heartbeat(scene.end)
        _final(scene, len(scene.readings) - 1, results, screen, seen)
    screen.aside(f"(the last row became final by a heartbeat: no tuple below {scene.end} will follow)")
    return differences(scene, seen)


def differences(scene: Scene, seen: dict[str, list[str]]) -> list[str]:
    """The differences from the paper, one line a result.

    >>> from dsms.demo.story import SCENES
    >>> differences(SCENES[1], {name: list(changes) for name, changes in SCENES[1].expected.items()})
    []
    """
    return [
        f"{name}: expected {', '.join(wanted)}, got {', '.join(seen[name]) or 'nothing'}"
        for name, wanted in scene.expected.items()
        if tuple(seen[name]) != wanted
    ]


def _register(scene: Scene, api: ApiClient, screen: Screen) -> None:
    for step in scene.steps:
        screen.line(f"> {step.sql}")
        screen.aside(step.about)
        with screen.waiting("…"):
            api.execute(step.sql)


def _final(scene: Scene, at: int, results: Results, screen: Screen, seen: dict[str, list[str]]) -> None:
    """Prints the row of a tuple once its instant is final."""
    reading = scene.readings[at]
    with screen.waiting(f"waiting until instant {reading.ts} is final"):
        new = results.below(reading.ts + 1)
    for name, changes in new.items():
        seen[name] += changes
    screen.row([_raw(reading), *(" ".join(changes) for changes in new.values())])


def _raw(reading: Reading) -> str:
    return render_change("", [reading.room, reading.temperature], reading.ts)


def _outgoing(reading: Reading) -> Outgoing:
    row = {"RoomID": reading.room, "Temperature": reading.temperature}
    return Outgoing(None, JsonCodec().encode(row, key=False), ts=reading.ts)
