-- title: IN
SELECT *, TS FROM T WHERE a IN (SELECT DISTINCT a AS x FROM E);

-- Project id, a, b, TS  [key: id]
--   SemiJoin on a = x  [key: id]
--     ℜ(T) over source Keyed  [key: id]
--     Distinct  [key: x]
--       Project a AS x  [key: none]
--         ℜ(E) over source Events  [key: none]
-- →
-- Project id, a, b, TS  [key: id]
--   SemiJoin on a = x  [key: id]
--     ℜ(T) over source Keyed  [key: id]
--     Project a AS x  [key: none]
--       ℜ(E) over source Events  [key: none]

-- title: NOT IN
SELECT *, TS FROM T WHERE id NOT IN (SELECT DISTINCT id AS x FROM E);

-- Project id, a, b, TS  [key: id]
--   AntiJoin on id = x  [key: id]
--     ℜ(T) over source Keyed  [key: id]
--     Distinct  [key: x]
--       Project id AS x  [key: none]
--         ℜ(E) over source Events  [key: none]
-- →
-- Project id, a, b, TS  [key: id]
--   AntiJoin on id = x  [key: id]
--     ℜ(T) over source Keyed  [key: id]
--     Project id AS x  [key: none]
--       ℜ(E) over source Events  [key: none]
