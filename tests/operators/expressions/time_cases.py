"""Dates and instants."""

import datetime as dt

at = dt.datetime
TIME = [
    ("t + INTERVAL '1 day'", at(2024, 3, 1, 13, 45, 30, 250_000)),
    ("d + INTERVAL '1' MONTH", at(2024, 2, 29)),
    ("t - INTERVAL 5 MINUTES", at(2024, 2, 29, 13, 40, 30, 250_000)),
    ("d + 1", dt.date(2024, 2, 1)),
    ("d - 31", dt.date(2023, 12, 31)),
    ("d - DATE '2024-01-01'", 30),
    ("INTERVAL '1' HOUR + d", at(2024, 1, 31, 1)),
    ("EXTRACT(YEAR FROM t)", 2024),
    ("EXTRACT(DOW FROM DATE '2024-01-07')", 0),
    ("EXTRACT(EPOCH FROM TIMESTAMP '1970-01-01 00:00:01.5')", 1.5),
    ("EXTRACT(SECOND FROM t)", 30),
    ("DATE_PART('month', t)", 2),
    ("YEAR(d)", 2024),
    ("HOUR(t)", 13),
    ("EXTRACT(MILLISECONDS FROM t)", 30_250),
    ("DATE_TRUNC('month', t)", at(2024, 2, 1)),
    ("DATE_TRUNC('week', DATE '2024-01-07')", at(2024, 1, 1)),
    ("DATE_DIFF('day', d, t)", 29),
    ("DATEDIFF('month', d, t)", 1),
    ("DATE_DIFF('week', DATE '2024-01-07', DATE '2024-01-08')", 1),
    ("DATE_DIFF('hour', TIMESTAMP '2024-01-01 00:59:00', TIMESTAMP '2024-01-01 01:01:00')", 1),
    ("STRFTIME(t, '%Y/%m/%d %f')", "2024/02/29 250000"),
    ("STRPTIME('31.01.2024', '%d.%m.%Y')", at(2024, 1, 31)),
    ("STRPTIME(s, '%Y')", '!cannot read "héllo" in "STRPTIME(s, \'%Y\')"'),
    ("TO_TIMESTAMP(1.5)", at(1970, 1, 1, 0, 0, 1, 500_000)),
    ("EPOCH(TIMESTAMP '1970-01-02 00:00:00')", 86_400.0),
    ("EPOCH_MS(TIMESTAMP '1970-01-01 00:00:01')", 1000),
    ("EPOCH_MS(1000)", at(1970, 1, 1, 0, 0, 1)),
    ("EPOCH_US(TIMESTAMP '1970-01-01 00:00:01')", 1_000_000),
    ("d + 100000000", '!date out of range in "d + 100000000"'),
]
