"""Plans and expressions built by hand over the streams of tests/golden/rules, for tests that need a certain node."""

from __future__ import annotations

import pyarrow as pa

from dsms.model import logical
from operators.aggregates.aggregate import Aggregate
from operators.core.sort_key import SortKey
from operators.expressions import call
from operators.ranking.window_call import WindowCall
from operators.sync.sync_points import Periodic
from tests.dsms.planner.optimizer.rules.rule_harness import EVENTS, KEYED, big, col, over, prefixed, project, where

EVERY2, EVERY4 = Periodic(2), Periodic(4, (1,))
COUNT = Aggregate("n", "count", (), pa.int64(), nullable=False)
SUM = Aggregate("s", "sum", ("a",), pa.int64())
RIGHT, THIRD = prefixed(KEYED, "r_"), prefixed(EVENTS, "q_")
JOIN = logical.Join(KEYED, RIGHT, (("id", "r_id"),))
SAME_A = call("equal", col(JOIN, "a"), col(JOIN, "r_a"))
BOTH = call("less", col(JOIN, "a"), col(JOIN, "r_a"))
GROUP = logical.GroupBy(project(KEYED, "a", "b"), ("b",), (COUNT, SUM))
TOP = logical.TopK(KEYED, ("b",), (SortKey("a", True),), 1)
ASSIGN = logical.Assign(EVENTS, "hop", "TS", 4, 2)
WINDOW, NOW = logical.TimeWindow(EVENTS, 3), logical.TimeWindow(EVENTS, 0)
ROWS = logical.RowWindow(EVENTS, 2, ("b",))
POINTS = project(where(EVENTS, over(EVENTS, "a")), "TS")
NUMBERED = WindowCall("number", "row_number", (), pa.int64(), ("b",), (SortKey("a"),))
NUMBERS = logical.WindowFunctions(KEYED, (NUMBERED,))
RATIO = call("divide", big(6), col(KEYED, "a"))
RATIOS = project(KEYED, "id", r=RATIO)


def extreme(below: logical.Node, function: str, value: str, *keys: str) -> logical.GroupBy:
    made = Aggregate(f"{function}_{value}", function, (value,), col(below, value).type)
    return logical.GroupBy(below, keys, (made,))


_MOST_A = extreme(KEYED, "max", "a", "b")
MOST_A = project(_MOST_A, m_b=col(_MOST_A, "b"), most=col(_MOST_A, "max_a"))
_MIN_OF_B = extreme(project(KEYED, "a", l_b=col(KEYED, "b")), "min", "a", "l_b")
MIN_OF_B = project(_MIN_OF_B, "l_b", least=col(_MIN_OF_B, "min_a"))
LEFT_OF_B = logical.Join(KEYED, MIN_OF_B, (("b", "l_b"),), outer="left")
