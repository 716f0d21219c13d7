-- title: windows of one length
-- after: project_through_time_window
SELECT *, TS AS since FROM E [Range 3] UNION ALL SELECT *, TS AS since FROM E [Range 3 Where a > 0];

-- Union  [key: none]
--   [Range 3]  [key: none]
--     Project id, a, b, TS AS since  [key: none]
--       ℜ(E) over source Events  [key: none]
--   [Range 3]  [key: none]
--     Project id, a, b, TS AS since  [key: none]
--       Filter a > 0  [key: none]
--         ℜ(E) over source Events  [key: none]
-- →
-- [Range 3]  [key: none]
--   Union  [key: none]
--     Project id, a, b, TS AS since  [key: none]
--       ℜ(E) over source Events  [key: none]
--     Project id, a, b, TS AS since  [key: none]
--       Filter a > 0  [key: none]
--         ℜ(E) over source Events  [key: none]
