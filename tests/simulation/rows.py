"""The final rows of a keyed result."""

from __future__ import annotations

import json

from connectors.kafka.client.names import OP_HEADER
from dsms.simulation.verdict import Records


def rows_left(records: Records) -> list[tuple[object, ...]]:
    """The rows that are left after all changes of a keyed result."""
    rows: dict[bytes | None, tuple[object, ...]] = {}
    for record in (record for partition in records.values() for record in partition):
        if record.value is None or dict(record.headers).get(OP_HEADER) == b"-":
            rows.pop(record.key, None)
        else:
            rows[record.key] = tuple(json.loads(record.value).values())
    return list(rows.values())
