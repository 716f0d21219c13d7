-- title: a filter
SELECT *, TS FROM R[Every2](T) WHERE a > 0;

-- Project id, a, b, TS  [key: id]
--   Filter a > 0  [key: id]
--     Sync every 2 at 0  [key: id]
--       ℜ(T) over source Keyed  [key: id]
-- →
-- Sync every 2 at 0  [key: id]
--   Project id, a, b, TS  [key: id]
--     Filter a > 0  [key: id]
--       ℜ(T) over source Keyed  [key: id]

-- title: a projection; the points are those of a stream
SELECT id, a FROM R[Points](T);

-- Project id, a  [key: id]
--   Sync  [key: id]
--     ℜ(T) over source Keyed  [key: id]
--     Project TS AS at  [key: none]
--       Filter a > 0  [key: none]
--         ℜ(E) over source Events  [key: none]
-- →
-- Sync  [key: id]
--   Project id, a  [key: id]
--     ℜ(T) over source Keyed  [key: id]
--   Project TS AS at  [key: none]
--     Filter a > 0  [key: none]
--       ℜ(E) over source Events  [key: none]

-- title: UNION ALL of relations with equal periods
SELECT *, TS AS since FROM R[Every4From1](T) UNION ALL SELECT *, TS AS since FROM R[Every4From1](E);

-- Union  [key: none]
--   Project id, a, b, TS AS since  [key: id]
--     Sync every 4 at 1  [key: id]
--       ℜ(T) over source Keyed  [key: id]
--   Project id, a, b, TS AS since  [key: none]
--     Sync every 4 at 1  [key: none]
--       ℜ(E) over source Events  [key: none]
-- →
-- Sync every 4 at 1  [key: none]
--   Union  [key: none]
--     Project id, a, b, TS AS since  [key: id]
--       ℜ(T) over source Keyed  [key: id]
--     Project id, a, b, TS AS since  [key: none]
--       ℜ(E) over source Events  [key: none]

-- title: UNION ALL of relations with the points of one stream
SELECT *, TS AS since FROM R[Points](T) UNION ALL SELECT *, TS AS since FROM R[Points](E);

-- Union  [key: none]
--   Project id, a, b, TS AS since  [key: id]
--     Sync  [key: id]
--       ℜ(T) over source Keyed  [key: id]
--       Project TS AS at  [key: none]
--         Filter a > 0  [key: none]
--           ℜ(E) over source Events  [key: none]
--   Project id, a, b, TS AS since  [key: none]
--     Sync  [key: none]
--       ℜ(E) over source Events  [key: none]
--       Project TS AS at  [key: none]
--         Filter a > 0  [key: none]
--           ℜ(E) over source Events  [key: none]
-- →
-- Sync  [key: none]
--   Union  [key: none]
--     Project id, a, b, TS AS since  [key: id]
--       ℜ(T) over source Keyed  [key: id]
--     Project id, a, b, TS AS since  [key: none]
--       ℜ(E) over source Events  [key: none]
--   Project TS AS at  [key: none]
--     Filter a > 0  [key: none]
--       ℜ(E) over source Events  [key: none]
