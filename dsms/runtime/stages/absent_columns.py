"""Which columns the keys of deletions lack. A decoder returns NULL both for a missing column and for a NULL value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

#: The orders (offsets with partition) of deletions, by the columns that the keys of their records lack.
AbsentKeyColumns = Mapping[frozenset[str], tuple[int, ...]]


def merged_orders(parts: Iterable[AbsentKeyColumns]) -> AbsentKeyColumns:
    """Merges the orders of consecutive pieces.

    >>> merged_orders([{frozenset("a"): (1,)}, {}, {frozenset("a"): (5,)}])
    {frozenset({'a'}): (1, 5)}
    """
    orders: dict[frozenset[str], tuple[int, ...]] = {}
    for part in parts:
        for columns, more in part.items():
            orders[columns] = orders.get(columns, ()) + more
    return orders
