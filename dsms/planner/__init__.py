"""From a bound query to a running plan.

A query passes first through `optimizer`, which rewrites its logical plan, finds views and families to
share, and adds shedding; then through `physical`, which chooses operators and joins by cost, compiles lanes, and
puts them together as the plan of a fragment.
"""
