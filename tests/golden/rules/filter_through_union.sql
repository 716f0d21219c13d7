-- title: two conditions
SELECT * FROM (SELECT *, TS AS since FROM T UNION ALL SELECT *, TS AS since FROM E) AS u WHERE a > 0 AND id < 2;

-- Project id, a, b, since  [key: none]
--   Filter a > 0 AND id < 2  [key: none]
--     Union  [key: none]
--       Project id, a, b, TS AS since  [key: id]
--         ℜ(T) over source Keyed  [key: id]
--       Project id, a, b, TS AS since  [key: none]
--         ℜ(E) over source Events  [key: none]
-- →
-- Project id, a, b, since  [key: none]
--   Union  [key: none]
--     Filter a > 0 AND id < 2  [key: id]
--       Project id, a, b, TS AS since  [key: id]
--         ℜ(T) over source Keyed  [key: id]
--     Filter a > 0 AND id < 2  [key: none]
--       Project id, a, b, TS AS since  [key: none]
--         ℜ(E) over source Events  [key: none]
