-- title: rows with their key
SELECT DISTINCT id, a, b, TS FROM T WHERE a > 0;

-- Distinct  [key: id]
--   Project id, a, b, TS  [key: id]
--     Filter a > 0  [key: id]
--       ℜ(T) over source Keyed  [key: id]
-- →
-- Project id, a, b, TS  [key: id]
--   Filter a > 0  [key: id]
--     ℜ(T) over source Keyed  [key: id]
