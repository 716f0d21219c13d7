"""Turns bound queries into running plans.

First, `optimizer` rewrites the logical plan of a query, finds views and families to share, and adds shedding. Then
`physical` chooses operators and join orders by cost, compiles lanes, and combines them in the plan of a fragment.
"""
