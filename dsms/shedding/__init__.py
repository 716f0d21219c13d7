"""Decides what to keep when the load or the state exceeds its bound: rates of shedding and sizes of windows.
`dsms/planner/optimizer/shedding.py` decides where a plan may shed, `operators/streams/shed.py` drops the rows, and
`dsms/runtime/shedding` measures a fragment and applies the decisions."""
