"""The rows that go through the exchanges of a fragment, in the words of Spark and of Arrow."""

import pyarrow as pa

#: What goes through the exchanges: elements for an edge (an exchange of the lane's dataflow) on a target, how far the
#: sources have come, and what is passed on to the driver. `leaf` is the number of the source, -1 where a later stage
#: made the row; `edge` stands for a vertex where a failure or fault is told, for an output where it is changes.
ROUTED = (
    "target int, lane string, kind string, edge int, leaf int, source_partition int, revision long, frontier long, "
    "blob binary"
)
ROUTED_ARROW: pa.Schema = pa.schema([  # type: ignore[arg-type]
    ("target", pa.int32()), ("lane", pa.string()), ("kind", pa.string()), ("edge", pa.int32()), ("leaf", pa.int32()),
    ("source_partition", pa.int32()), ("revision", pa.int64()), ("frontier", pa.int64()), ("blob", pa.binary()),
])  # fmt: skip
