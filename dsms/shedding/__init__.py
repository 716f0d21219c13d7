"""Decides rates of shedding when the load exceeds its bound, and sizes of windows when the state does.
`dsms/planner/optimizer/shedding.py` decides where a plan may shed, `operators/streams/shed.py` drops the rows, and
`dsms/runtime/shedding` measures a fragment and applies the decisions."""
