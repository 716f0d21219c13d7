-- title: groups, below a filter and a projection
SELECT * FROM R[Every4From1](Sums);

-- Project b, s  [key: b]
--   Sync every 4 at 1  [key: b]
--     Project b, __v0 AS s  [key: b]
--       Filter __v1 > 0  [key: b]
--         GroupBy b; __v0 := sum(a); __v1 := count(*)  [key: b]
--           Project b, a  [key: none]
--             ℜ(T) over source Keyed  [key: id]
-- →
-- Project b, s  [key: b]
--   Project b, __v0 AS s  [key: b]
--     Filter __v1 > 0  [key: b]
--       GroupBy b; __v0 := sum(a); __v1 := count(*)  [key: b]
--         Sync every 4 at 1  [key: none]
--           Project b, a  [key: none]
--             ℜ(T) over source Keyed  [key: id]

-- title: DISTINCT
SELECT * FROM R[Every4From1](DistinctA);

-- Project a  [key: a]
--   Sync every 4 at 1  [key: a]
--     Distinct  [key: a]
--       Project a  [key: none]
--         ℜ(T) over source Keyed  [key: id]
-- →
-- Project a  [key: a]
--   Distinct  [key: a]
--     Sync every 4 at 1  [key: none]
--       Project a  [key: none]
--         ℜ(T) over source Keyed  [key: id]

-- title: a join
SELECT * FROM R[Every4From1](Pairs);

-- Project id, a, b, since, r_id, r_a, r_b, r_since  [key: id]
--   Sync every 4 at 1  [key: id]
--     Project id, a, b, TS AS since, "R.id" AS r_id, "R.a" AS r_a, "R.b" AS r_b, "R.TS" AS r_since  [key: id]
--       Join on id = R.id  [key: id]
--         ℜ(T) over source Keyed  [key: id]
--         Project id AS R.id, a AS R.a, b AS R.b, TS AS R.TS  [key: R.id]
--           ℜ(T) over source Keyed  [key: id]
-- →
-- Project id, a, b, since, r_id, r_a, r_b, r_since  [key: id]
--   Project id, a, b, TS AS since, "R.id" AS r_id, "R.a" AS r_a, "R.b" AS r_b, "R.TS" AS r_since  [key: id]
--     Join on id = R.id  [key: id]
--       Sync every 4 at 1  [key: id]
--         ℜ(T) over source Keyed  [key: id]
--       Sync every 4 at 1  [key: R.id]
--         Project id AS R.id, a AS R.a, b AS R.b, TS AS R.TS  [key: R.id]
--           ℜ(T) over source Keyed  [key: id]

-- title: groups; the points are those of a stream
SELECT * FROM R[Points](Sums);

-- Project b, s  [key: b]
--   Sync  [key: b]
--     Project b, __v0 AS s  [key: b]
--       Filter __v1 > 0  [key: b]
--         GroupBy b; __v0 := sum(a); __v1 := count(*)  [key: b]
--           Project b, a  [key: none]
--             ℜ(T) over source Keyed  [key: id]
--     Project TS AS at  [key: none]
--       Filter a > 0  [key: none]
--         ℜ(E) over source Events  [key: none]
-- →
-- Project b, s  [key: b]
--   Project b, __v0 AS s  [key: b]
--     Filter __v1 > 0  [key: b]
--       GroupBy b; __v0 := sum(a); __v1 := count(*)  [key: b]
--         Sync  [key: none]
--           Project b, a  [key: none]
--             ℜ(T) over source Keyed  [key: id]
--           Project TS AS at  [key: none]
--             Filter a > 0  [key: none]
--               ℜ(E) over source Events  [key: none]

-- title: DISTINCT; the points are those of a stream
SELECT * FROM R[Points](DistinctA);

-- Project a  [key: a]
--   Sync  [key: a]
--     Distinct  [key: a]
--       Project a  [key: none]
--         ℜ(T) over source Keyed  [key: id]
--     Project TS AS at  [key: none]
--       Filter a > 0  [key: none]
--         ℜ(E) over source Events  [key: none]
-- →
-- Project a  [key: a]
--   Distinct  [key: a]
--     Sync  [key: none]
--       Project a  [key: none]
--         ℜ(T) over source Keyed  [key: id]
--       Project TS AS at  [key: none]
--         Filter a > 0  [key: none]
--           ℜ(E) over source Events  [key: none]

-- title: a join; the points are those of a stream
SELECT * FROM R[Points](Pairs);

-- Project id, a, b, since, r_id, r_a, r_b, r_since  [key: id]
--   Sync  [key: id]
--     Project id, a, b, TS AS since, "R.id" AS r_id, "R.a" AS r_a, "R.b" AS r_b, "R.TS" AS r_since  [key: id]
--       Join on id = R.id  [key: id]
--         ℜ(T) over source Keyed  [key: id]
--         Project id AS R.id, a AS R.a, b AS R.b, TS AS R.TS  [key: R.id]
--           ℜ(T) over source Keyed  [key: id]
--     Project TS AS at  [key: none]
--       Filter a > 0  [key: none]
--         ℜ(E) over source Events  [key: none]
-- →
-- Project id, a, b, since, r_id, r_a, r_b, r_since  [key: id]
--   Project id, a, b, TS AS since, "R.id" AS r_id, "R.a" AS r_a, "R.b" AS r_b, "R.TS" AS r_since  [key: id]
--     Join on id = R.id  [key: id]
--       Sync  [key: id]
--         ℜ(T) over source Keyed  [key: id]
--         Project TS AS at  [key: none]
--           Filter a > 0  [key: none]
--             ℜ(E) over source Events  [key: none]
--       Sync  [key: R.id]
--         Project id AS R.id, a AS R.a, b AS R.b, TS AS R.TS  [key: R.id]
--           ℜ(T) over source Keyed  [key: id]
--         Project TS AS at  [key: none]
--           Filter a > 0  [key: none]
--             ℜ(E) over source Events  [key: none]
