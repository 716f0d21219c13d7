-- title: a filter
SELECT *, TS FROM T WHERE id > 0 AND 0 < a;

-- Project id, a, b, TS  [key: id]
--   Filter id > 0 AND 0 < a  [key: id]
--     ℜ(T) over source Keyed  [key: id]
-- →
-- Project id, a, b, TS  [key: id]
--   Filter a > 0 AND id > 0  [key: id]
--     ℜ(T) over source Keyed  [key: id]

-- title: a condition of a join
SELECT *, T.TS, R.TS AS r_since FROM T JOIN T AS R ON T.id = R.id AND T.a <> R.a AND T.a < R.a;

-- Project id, a, b, R.id, R.a, R.b, TS, "R.TS" AS r_since  [key: id]
--   Join on id = R.id and a <> "R.a" AND a < "R.a"  [key: id]
--     ℜ(T) over source Keyed  [key: id]
--     Project id AS R.id, a AS R.a, b AS R.b, TS AS R.TS  [key: R.id]
--       ℜ(T) over source Keyed  [key: id]
-- →
-- Project id, a, b, R.id, R.a, R.b, TS, "R.TS" AS r_since  [key: id]
--   Join on id = R.id and "R.a" <> a AND a < "R.a"  [key: id]
--     ℜ(T) over source Keyed  [key: id]
--     Project id AS R.id, a AS R.a, b AS R.b, TS AS R.TS  [key: R.id]
--       ℜ(T) over source Keyed  [key: id]
