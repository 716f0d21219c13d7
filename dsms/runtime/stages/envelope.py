"""The schema of the rows that go through the exchanges of a fragment, for Spark and for Arrow.

The messages in the rows are defined in `wire`. Processes that only pass rows on import this module alone.
"""

from __future__ import annotations

import pyarrow as pa

#: The target and stage that a message is sent to, its revision and lane, and the message.
ENVELOPE = "target int, stage int, revision long, lane string, message binary"
ENVELOPE_ARROW: pa.Schema = pa.schema(
    [  # type: ignore[arg-type]
        ("target", pa.int32()),
        ("stage", pa.int32()),
        ("revision", pa.int64()),
        ("lane", pa.string()),
        ("message", pa.binary()),
    ]
)
