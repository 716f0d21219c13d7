-- title: a condition on a column of DISTINCT
SELECT * FROM (SELECT DISTINCT a, b FROM T) AS d WHERE a > 0;

-- Project a, b  [key: a, b]
--   Filter a > 0  [key: a, b]
--     Distinct  [key: a, b]
--       Project a, b  [key: none]
--         ℜ(T) over source Keyed  [key: id]
-- →
-- Project a, b  [key: a, b]
--   Distinct  [key: a, b]
--     Filter a > 0  [key: none]
--       Project a, b  [key: none]
--         ℜ(T) over source Keyed  [key: id]
