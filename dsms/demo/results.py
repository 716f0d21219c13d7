"""Reads the results of continuous queries from their topics up to an instant."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from types import TracebackType

from connectors.formats.record_codec import JsonCodec
from connectors.kafka.client.config import KafkaSettings
from connectors.kafka.logs.follow import Arrival, Follower
from dsms.cli.api_client import ApiClient
from dsms.cli.consume import Result
from dsms.cli.notation import render_change
from dsms.local.waiting import wait_until
from operators.core.errors import ExternalError

DEADLINE_S = 120.0
_ASK_EVERY_S = 0.1


class Results:
    """Follows the result topics of some queries."""

    def __init__(self, api: ApiClient, kafka: KafkaSettings, names: tuple[str, ...]) -> None:
        self._api = api
        self._shapes = {name: _shape(api.describe(name)) for name in names}
        with ExitStack() as stack:
            self._followers = {
                name: stack.enter_context(Follower(kafka, str(api.describe(name)["topic"]))) for name in names
            }
            self._stack = stack.pop_all()

    def __enter__(self) -> Results:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def below(self, instant: int) -> Mapping[str, list[str]]:
        """Waits until everything below the instant is published, then returns the new changes of each result."""
        if not wait_until(lambda: self._final(instant), DEADLINE_S, pause_s=_ASK_EVERY_S):
            states = ", ".join(f"{name} {self._api.describe(name)['state']}" for name in self._followers)
            raise ExternalError(f"no results up to instant {instant} within {DEADLINE_S:g} s", hint=states)
        return {name: self._new(name) for name in self._followers}

    def _final(self, instant: int) -> bool:
        frontiers = [self._api.describe(name).get("frontier") for name in self._followers]
        return all(frontier is not None and frontier >= instant for frontier in frontiers)

    def _new(self, name: str) -> list[str]:
        follower, shape = self._followers[name], self._shapes[name]
        ends, changes, deadline = follower.ends(), [], time.monotonic() + DEADLINE_S
        arrivals = follower.arrivals()
        while not follower.reached(ends):
            arrival = next(arrivals)
            if isinstance(arrival, Arrival):
                change = shape.change(arrival)
                changes.append(render_change(change.op, shape.values(change), change.ts))
            elif time.monotonic() > deadline:
                raise ExternalError(f'the results of "{name}" could not be read within {DEADLINE_S:g} s')
        return changes


def _shape(document: Mapping[str, object]) -> Result:
    columns, key = document["columns"], document["key"]
    assert isinstance(columns, list) and isinstance(key, list)
    return Result(JsonCodec(), tuple(str(column["name"]) for column in columns), tuple(map(str, key)))
