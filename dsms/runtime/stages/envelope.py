"""The columns of the rows that go through the exchanges of a fragment, in Spark's and in Arrow's words.

What is in a row is in `wire`. Processes that only pass rows on import no more than this.
"""

from __future__ import annotations

import pyarrow as pa

#: To which target and stage a message goes, of which revision and lane it is, and the message.
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
