-- title: all columns in their order
SELECT id, a, b, TS FROM T;

-- Project id, a, b, TS  [key: id]
--   ℜ(T) over source Keyed  [key: id]
-- →
-- ℜ(T) over source Keyed  [key: id]
