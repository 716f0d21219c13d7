-- title: a condition on an expression, and one on a column
SELECT * FROM (SELECT id, 6 / a AS r FROM T) AS p WHERE r > 2 AND id > 0;

-- Project id, r  [key: id]
--   Filter r > 2 AND id > 0  [key: id]
--     Project id, 6 / a AS r  [key: id]
--       ℜ(T) over source Keyed  [key: id]
-- →
-- Project id, r  [key: id]
--   Project id, 6 / a AS r  [key: id]
--     Filter 6 / a > 2 AND id > 0  [key: id]
--       ℜ(T) over source Keyed  [key: id]

-- title: a renamed column
SELECT * FROM (SELECT a AS x FROM T) AS p WHERE x > 0;

-- Project x  [key: none]
--   Filter x > 0  [key: none]
--     Project a AS x  [key: none]
--       ℜ(T) over source Keyed  [key: id]
-- →
-- Project x  [key: none]
--   Project a AS x  [key: none]
--     Filter a > 0  [key: id]
--       ℜ(T) over source Keyed  [key: id]

-- title: a condition that fails on rows on which the outputs do not fail
SELECT * FROM (SELECT id, a FROM T) AS p WHERE 6 / a > 2;

-- Project id, a  [key: id]
--   Filter 6 / a > 2  [key: id]
--     Project id, a  [key: id]
--       ℜ(T) over source Keyed  [key: id]
-- →
-- Project id, a  [key: id]
--   Project id, a  [key: id]
--     Filter 6 / a > 2  [key: id]
--       ℜ(T) over source Keyed  [key: id]
