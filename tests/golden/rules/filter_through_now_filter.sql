-- title: a condition above one on Now
-- after: filter_through_project
SELECT * FROM (SELECT *, TS AS since FROM T WHERE TS <= Now) AS p WHERE a > 0;

-- Project id, a, b, since  [key: id]
--   Project id, a, b, TS AS since  [key: id]
--     Filter a > 0  [key: id]
--       NowFilter Now in [TS, ∞)  [key: id]
--         ℜ(T) over source Keyed  [key: id]
-- →
-- Project id, a, b, since  [key: id]
--   Project id, a, b, TS AS since  [key: id]
--     NowFilter Now in [TS, ∞)  [key: id]
--       Filter a > 0  [key: id]
--         ℜ(T) over source Keyed  [key: id]
