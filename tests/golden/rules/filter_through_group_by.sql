-- title: the condition on the key moves, that on the aggregate stays
SELECT b, COUNT(*) AS n, SUM(a) AS s FROM T GROUP BY b HAVING COUNT(*) > 1 AND b = b;

-- Project b, __v0 AS n, __v1 AS s  [key: b]
--   Filter __v0 > 1 AND b = b  [key: b]
--     GroupBy b; __v0 := count(*); __v1 := sum(a)  [key: b]
--       Project b, a  [key: none]
--         ℜ(T) over source Keyed  [key: id]
-- →
-- Project b, __v0 AS n, __v1 AS s  [key: b]
--   Filter __v0 > 1  [key: b]
--     GroupBy b; __v0 := count(*); __v1 := sum(a)  [key: b]
--       Filter b = b  [key: none]
--         Project b, a  [key: none]
--           ℜ(T) over source Keyed  [key: id]
