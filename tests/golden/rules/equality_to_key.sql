-- title: one of two conditions above a cross product
-- after: filter_through_project
SELECT * FROM (SELECT *, E.TS AS since, R.TS AS r_since FROM E, T AS R) AS p WHERE "R.a" = a AND id > 0;

-- Project id, a, b, R.id, R.a, R.b, since, r_since  [key: none]
--   Project id, a, b, R.id, R.a, R.b, TS AS since, "R.TS" AS r_since  [key: none]
--     Filter "R.a" = a AND id > 0  [key: none]
--       Join  [key: none]
--         ℜ(E) over source Events  [key: none]
--         Project id AS R.id, a AS R.a, b AS R.b, TS AS R.TS  [key: R.id]
--           ℜ(T) over source Keyed  [key: id]
-- →
-- Project id, a, b, R.id, R.a, R.b, since, r_since  [key: none]
--   Project id, a, b, R.id, R.a, R.b, TS AS since, "R.TS" AS r_since  [key: none]
--     Filter id > 0  [key: none]
--       Join on a = R.a  [key: none]
--         ℜ(E) over source Events  [key: none]
--         Project id AS R.id, a AS R.a, b AS R.b, TS AS R.TS  [key: R.id]
--           ℜ(T) over source Keyed  [key: id]

-- title: a condition above a join that has a key and another condition
-- after: filter_through_project
SELECT * FROM (SELECT *, T.TS AS since, R.TS AS r_since FROM T JOIN T AS R ON T.id = R.id AND T.a < R.a) AS p
WHERE a = "R.a";

-- Project id, a, b, R.id, R.a, R.b, since, r_since  [key: id]
--   Project id, a, b, R.id, R.a, R.b, TS AS since, "R.TS" AS r_since  [key: id]
--     Filter a = "R.a"  [key: id]
--       Join on id = R.id and a < "R.a"  [key: id]
--         ℜ(T) over source Keyed  [key: id]
--         Project id AS R.id, a AS R.a, b AS R.b, TS AS R.TS  [key: R.id]
--           ℜ(T) over source Keyed  [key: id]
-- →
-- Project id, a, b, R.id, R.a, R.b, since, r_since  [key: id]
--   Project id, a, b, R.id, R.a, R.b, TS AS since, "R.TS" AS r_since  [key: id]
--     Join on id = R.id and a = R.a and a < "R.a"  [key: id]
--       ℜ(T) over source Keyed  [key: id]
--       Project id AS R.id, a AS R.a, b AS R.b, TS AS R.TS  [key: R.id]
--         ℜ(T) over source Keyed  [key: id]
