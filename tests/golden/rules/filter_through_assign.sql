-- title: the condition on window_end stays
SELECT *, TS FROM TABLE(HOP(TABLE E, DESCRIPTOR(TS), 2, 4)) WHERE a > 0 AND window_end > 6;

-- Project id, a, b, window_start, window_end, TS  [key: none]
--   Filter a > 0 AND window_end > 6  [key: none]
--     Assign hop TS size 4 slide 2  [key: none]
--       ℜ(E) over source Events  [key: none]
-- →
-- Project id, a, b, window_start, window_end, TS  [key: none]
--   Filter window_end > 6  [key: none]
--     Assign hop TS size 4 slide 2  [key: none]
--       Filter a > 0  [key: none]
--         ℜ(E) over source Events  [key: none]
