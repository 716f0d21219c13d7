-- title: a side of a comparison
SELECT *, TS FROM T WHERE a > 5 - 3;

-- Project id, a, b, TS  [key: id]
--   Filter a > 5 - 3  [key: id]
--     ℜ(T) over source Keyed  [key: id]
-- →
-- Project id, a, b, TS  [key: id]
--   Filter a > 2  [key: id]
--     ℜ(T) over source Keyed  [key: id]

-- title: a division by zero stays
SELECT *, TS FROM T WHERE id > 0 OR -(0 + 1) / 0 > 2;

-- Project id, a, b, TS  [key: id]
--   Filter id > 0 OR -(0 + 1) / 0 > 2  [key: id]
--     ℜ(T) over source Keyed  [key: id]
-- →
-- Project id, a, b, TS  [key: id]
--   Filter id > 0 OR -1 / 0 > 2  [key: id]
--     ℜ(T) over source Keyed  [key: id]

-- title: a part of an output
SELECT id, a + -(1 + 1) AS x FROM T;

-- Project id, a + -(1 + 1) AS x  [key: id]
--   ℜ(T) over source Keyed  [key: id]
-- →
-- Project id, a + -2 AS x  [key: id]
--   ℜ(T) over source Keyed  [key: id]

-- title: a condition of a join
SELECT *, T.TS, R.TS AS r_since FROM T JOIN T AS R ON T.id = R.id AND T.a + R.a < 2 * 2;

-- Project id, a, b, R.id, R.a, R.b, TS, "R.TS" AS r_since  [key: id]
--   Join on id = R.id and a + "R.a" < 2 * 2  [key: id]
--     ℜ(T) over source Keyed  [key: id]
--     Project id AS R.id, a AS R.a, b AS R.b, TS AS R.TS  [key: R.id]
--       ℜ(T) over source Keyed  [key: id]
-- →
-- Project id, a, b, R.id, R.a, R.b, TS, "R.TS" AS r_since  [key: id]
--   Join on id = R.id and a + "R.a" < 4  [key: id]
--     ℜ(T) over source Keyed  [key: id]
--     Project id AS R.id, a AS R.a, b AS R.b, TS AS R.TS  [key: R.id]
--       ℜ(T) over source Keyed  [key: id]
