"""The types of parameters follow from their places."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dsms.coordinator.postgres.parameter_types import parameter_types

SCHEMAS = {
    "t": pa.schema([("k", pa.int32()), ("name", pa.string()), ("price", pa.float64()), ("tags", pa.list_(pa.int32()))]),
    "u": pa.schema([("k", pa.int64()), ("at", pa.timestamp("us"))]),
}
INT, BIGINT, TEXT, DOUBLE, TIMESTAMP, INTERVAL, OID = 23, 20, 25, 701, 1114, 1186, 26
INTS, TEXTS, OIDS = 1007, 1009, 1028


@pytest.mark.parametrize(
    ("sql", "types"),
    [
        ("SELECT $1::int, CAST($2 AS DOUBLE), ($3)::timestamp", (INT, DOUBLE, TIMESTAMP)),
        ("SELECT * FROM t WHERE K = $1 AND $2 < price", (INT, DOUBLE)),
        ("SELECT * FROM t WHERE k IN ($2, $1) OR k BETWEEN $3 AND -$4", (INT, INT, INT, INT)),
        ("SELECT * FROM t WHERE name LIKE $1 LIMIT $2 OFFSET $3", (TEXT, BIGINT, BIGINT)),
        ("SELECT * FROM t JOIN u ON t.k = u.k WHERE u.k = $1 AND t.k = $2 AND at > $3", (BIGINT, INT, TIMESTAMP)),
        ("SELECT * FROM t, u WHERE k = $1", (TEXT,)),  # k is ambiguous
        ("SELECT * FROM t WHERE tags = $1 AND tags && $2", (INTS, INTS)),
        ("SELECT * FROM t WHERE $1 = ANY(tags) AND k = ANY($2) AND k <> ALL($3)", (INT, INTS, INTS)),
        ("SELECT $1::int[], CAST($2 AS TEXT[]), $3::interval", (INTS, TEXTS, INTERVAL)),
        ("SELECT at + $1 FROM u WHERE at > $2", (INTERVAL, TIMESTAMP)),
        ("UPDATE t SET tags = $1 WHERE k = $2", (INTS, INT)),
        (
            "SELECT 1 FROM pg_class WHERE oid = $1 AND relname = $2 AND oid = ANY($3::oid[]) AND oid = $4::oid",
            (BIGINT, TEXT, OIDS, OID),
        ),
        ("SELECT * FROM unknown WHERE k = $1", (TEXT,)),
        ("SELECT $1, price * $2 FROM t", (TEXT, DOUBLE)),
        ("INSERT INTO t VALUES ($1, $2, $3), ($4, 'a', 1)", (INT, TEXT, DOUBLE, INT)),
        ("INSERT INTO t (price, k) VALUES ($1, $2) ON CONFLICT (k) DO UPDATE SET name = $3", (DOUBLE, INT, TEXT)),
        ("INSERT INTO u SELECT $1, $2", (BIGINT, TIMESTAMP)),
        ("UPDATE t SET price = $1 WHERE k = $2 RETURNING *", (DOUBLE, INT)),
        ("DELETE FROM t AS x WHERE x.k = $1", (INT,)),
        ("NOT SQL $1", (TEXT,)),
    ],
)
def test_types(sql: str, types: tuple[int, ...]) -> None:
    assert parameter_types(sql, (), lambda: SCHEMAS) == types


def test_the_types_that_the_client_gives_are_kept() -> None:
    assert parameter_types("SELECT * FROM t WHERE k = $1 AND k = $2", (TEXT, 0), lambda: SCHEMAS) == (TEXT, INT)
    assert parameter_types("SELECT $1", (INT,), lambda: pytest.fail("nothing has to be inferred")) == (INT,)
