-- title: every point of the outer one is a point of the inner one
-- after: sync_above, sync_above
SELECT * FROM R[Every4](TEvery2);

-- Sync every 4 at 0  [key: id]
--   Sync every 2 at 0  [key: id]
--     Project id, a, b, since  [key: id]
--       Project id, a, b, TS AS since  [key: id]
--         ℜ(T) over source Keyed  [key: id]
-- →
-- Sync every 4 at 0  [key: id]
--   Project id, a, b, since  [key: id]
--     Project id, a, b, TS AS since  [key: id]
--       ℜ(T) over source Keyed  [key: id]

-- title: both have the points of one stream
-- after: sync_above, sync_above
SELECT * FROM R[Points](TPoints);

-- Sync  [key: id]
--   Sync  [key: id]
--     Project id, a, b, since  [key: id]
--       Project id, a, b, TS AS since  [key: id]
--         ℜ(T) over source Keyed  [key: id]
--     Project TS AS at  [key: none]
--       Filter a > 0  [key: none]
--         ℜ(E) over source Events  [key: none]
--   Project TS AS at  [key: none]
--     Filter a > 0  [key: none]
--       ℜ(E) over source Events  [key: none]
-- →
-- Sync  [key: id]
--   Project id, a, b, since  [key: id]
--     Project id, a, b, TS AS since  [key: id]
--       ℜ(T) over source Keyed  [key: id]
--   Project TS AS at  [key: none]
--     Filter a > 0  [key: none]
--       ℜ(E) over source Events  [key: none]
