-- title: a condition on each side, and one on both
-- after: filter_through_project
SELECT * FROM Pairs WHERE a > 0 AND r_a < 2 AND a < r_a;

-- Project id, a, b, since, r_id, r_a, r_b, r_since  [key: id]
--   Project id, a, b, TS AS since, "R.id" AS r_id, "R.a" AS r_a, "R.b" AS r_b, "R.TS" AS r_since  [key: id]
--     Filter a > 0 AND "R.a" < 2 AND a < "R.a"  [key: id]
--       Join on id = R.id  [key: id]
--         ℜ(T) over source Keyed  [key: id]
--         Project id AS R.id, a AS R.a, b AS R.b, TS AS R.TS  [key: R.id]
--           ℜ(T) over source Keyed  [key: id]
-- →
-- Project id, a, b, since, r_id, r_a, r_b, r_since  [key: id]
--   Project id, a, b, TS AS since, "R.id" AS r_id, "R.a" AS r_a, "R.b" AS r_b, "R.TS" AS r_since  [key: id]
--     Filter a < "R.a"  [key: id]
--       Join on id = R.id  [key: id]
--         Filter a > 0  [key: id]
--           ℜ(T) over source Keyed  [key: id]
--         Filter "R.a" < 2  [key: R.id]
--           Project id AS R.id, a AS R.a, b AS R.b, TS AS R.TS  [key: R.id]
--             ℜ(T) over source Keyed  [key: id]

-- title: a left join preserves its left side
-- after: filter_through_project
SELECT * FROM (SELECT *, T.TS AS since, R.TS AS r_since FROM T LEFT JOIN T AS R ON T.a = R.a) AS p
WHERE id > 0 AND "R.id" < 2;

-- Project id, a, b, R.id, R.a, R.b, since, r_since  [key: id, R.id]
--   Project id, a, b, R.id, R.a, R.b, TS AS since, "R.TS" AS r_since  [key: id, R.id]
--     Filter id > 0 AND "R.id" < 2  [key: id, R.id]
--       LeftJoin on a = R.a  [key: id, R.id]
--         ℜ(T) over source Keyed  [key: id]
--         Project id AS R.id, a AS R.a, b AS R.b, TS AS R.TS  [key: R.id]
--           ℜ(T) over source Keyed  [key: id]
-- →
-- Project id, a, b, R.id, R.a, R.b, since, r_since  [key: id, R.id]
--   Project id, a, b, R.id, R.a, R.b, TS AS since, "R.TS" AS r_since  [key: id, R.id]
--     Filter "R.id" < 2  [key: id, R.id]
--       LeftJoin on a = R.a  [key: id, R.id]
--         Filter id > 0  [key: id]
--           ℜ(T) over source Keyed  [key: id]
--         Project id AS R.id, a AS R.a, b AS R.b, TS AS R.TS  [key: R.id]
--           ℜ(T) over source Keyed  [key: id]

-- title: a right join preserves its right side
-- after: filter_through_project
SELECT * FROM (SELECT *, T.TS AS since, R.TS AS r_since FROM T RIGHT JOIN T AS R ON T.a = R.a) AS p
WHERE "R.id" > 0 AND id < 2;

-- Project id, a, b, R.id, R.a, R.b, since, r_since  [key: id, R.id]
--   Project id, a, b, R.id, R.a, R.b, TS AS since, "R.TS" AS r_since  [key: id, R.id]
--     Filter "R.id" > 0 AND id < 2  [key: id, R.id]
--       RightJoin on a = R.a  [key: id, R.id]
--         ℜ(T) over source Keyed  [key: id]
--         Project id AS R.id, a AS R.a, b AS R.b, TS AS R.TS  [key: R.id]
--           ℜ(T) over source Keyed  [key: id]
-- →
-- Project id, a, b, R.id, R.a, R.b, since, r_since  [key: id, R.id]
--   Project id, a, b, R.id, R.a, R.b, TS AS since, "R.TS" AS r_since  [key: id, R.id]
--     Filter id < 2  [key: id, R.id]
--       RightJoin on a = R.a  [key: id, R.id]
--         ℜ(T) over source Keyed  [key: id]
--         Filter "R.id" > 0  [key: R.id]
--           Project id AS R.id, a AS R.a, b AS R.b, TS AS R.TS  [key: R.id]
--             ℜ(T) over source Keyed  [key: id]
