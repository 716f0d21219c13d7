-- title: two conditions
-- after: filter_through_project
SELECT * FROM (SELECT *, TS AS since FROM T WHERE a > 0) AS p WHERE id > 0;

-- Project id, a, b, since  [key: id]
--   Project id, a, b, TS AS since  [key: id]
--     Filter id > 0  [key: id]
--       Filter a > 0  [key: id]
--         ℜ(T) over source Keyed  [key: id]
-- →
-- Project id, a, b, since  [key: id]
--   Project id, a, b, TS AS since  [key: id]
--     Filter a > 0 AND id > 0  [key: id]
--       ℜ(T) over source Keyed  [key: id]

-- title: a condition that protects the other from a fault
-- after: filter_through_project
SELECT * FROM (SELECT *, TS AS since FROM T WHERE a <> 0) AS p WHERE 6 / a > 2;

-- Project id, a, b, since  [key: id]
--   Project id, a, b, TS AS since  [key: id]
--     Filter 6 / a > 2  [key: id]
--       Filter a <> 0  [key: id]
--         ℜ(T) over source Keyed  [key: id]
-- →
-- Project id, a, b, since  [key: id]
--   Project id, a, b, TS AS since  [key: id]
--     Filter (a <> 0) IS TRUE AND 6 / a > 2  [key: id]
--       ℜ(T) over source Keyed  [key: id]
