-- title: Range Unbounded
SELECT *, TS FROM E [Range Unbounded] WHERE a > 0;

-- Project id, a, b, TS  [key: none]
--   Filter a > 0  [key: none]
--     [Range unbounded]  [key: none]
--       ℜ(E) over source Events  [key: none]
-- →
-- Project id, a, b, TS  [key: none]
--   Filter a > 0  [key: none]
--     ℜ(E) over source Events  [key: none]
