"""Casts, and literals of bytes. SqlError marks expressions that the binder refuses."""

import datetime as dt
from decimal import Decimal

from operators.core.errors import SqlError

at = dt.datetime
CONVERSION = [
    ("CAST(' 12 ' AS INT)", 12),
    ("'12'::BIGINT", 12),
    ("CAST('2.5' AS INT)", '!cannot cast "2.5" to INTEGER in "CAST(\'2.5\' AS INTEGER)"'),
    ("CAST('2.0' AS BIGINT)", '!cannot cast "2.0" to BIGINT in "CAST(\'2.0\' AS BIGINT)"'),
    ("CAST('1e2' AS INT)", '!cannot cast "1e2" to INTEGER in "CAST(\'1e2\' AS INTEGER)"'),
    ("CAST('-1.005' AS DECIMAL(9, 2))", Decimal("-1.01")),
    ("CAST(f AS INT)", 2),
    ("CAST(3.5e0 AS INT)", 4),
    ("CAST(m AS INT)", 12),
    ("CAST(2.5 AS INT)", 3),
    ("CAST(s AS INT)", '!cannot cast "héllo" to INTEGER in "CAST(s AS INTEGER)"'),
    ("TRY_CAST(s AS INT)", None),
    ("CAST(j AS INT)", '!cannot cast "4611686018427387904" to INTEGER in "CAST(j AS INTEGER)"'),
    ("TRY_CAST(i / z AS BIGINT)", None),
    ("CAST('1.005' AS DECIMAL(9, 2))", Decimal("1.01")),
    ("CAST(m AS DECIMAL(9, 1))", Decimal("12.4")),
    ("CAST(m AS DECIMAL(3, 2))", '!cannot cast "12.35" to DECIMAL(3, 2) in "CAST(m AS DECIMAL(3, 2))"'),
    ("CAST(i AS VARCHAR)", "7"),
    ("CAST(f AS VARCHAR)", "2.5"),
    ("CAST(b AS TEXT)", "true"),
    ("CAST(d AS VARCHAR)", "2024-01-31"),
    ("CAST(t AS VARCHAR)", "2024-02-29 13:45:30.25"),
    ("CAST(d AS TIMESTAMP)", at(2024, 1, 31)),
    ("CAST(t AS DATE)", dt.date(2024, 2, 29)),
    ("CAST('2024-02-30' AS TIMESTAMP)", SqlError),
    ("CAST(CONCAT('2024-01-0', '5T01:02:03Z') AS TIMESTAMP)", at(2024, 1, 5, 1, 2, 3)),
    ("CAST(CONCAT('2024-01-05 01:02:03', '+02:00') AS TIMESTAMP)", at(2024, 1, 4, 23, 2, 3)),
    ("CAST(CONCAT('yes', '') AS BOOLEAN)", True),
    ("CAST(i AS BOOLEAN)", True),
    ("CAST(b AS INT)", 1),
    ("CAST(y AS VARCHAR)", "abc"),
    ("CAST('abc' AS VARBINARY)", b"abc"),
    ("CAST(i AS DOUBLE)", 7.0),
    ("CAST(NULL AS INT)", None),
    ("CAST(l AS DOUBLE[])", [10.0, 20.0, None]),
    ("CAST(1e300 AS REAL)", '!cannot cast "1e+300" to REAL in "CAST(1e+300 AS REAL)"'),
    ("X'0aff'", b"\x0a\xff"),
]
