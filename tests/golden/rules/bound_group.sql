-- title: windows of HOP are the whole key
SELECT window_start, window_end, COUNT(*) AS n, SUM(a) AS s
FROM TABLE(HOP(TABLE E, DESCRIPTOR(TS), 2, 4)) GROUP BY window_start, window_end;

-- Project window_start, window_end, __v0 AS n, __v1 AS s  [key: window_start, window_end]
--   GroupBy window_start, window_end; __v0 := count(*); __v1 := sum(a)  [key: window_start, window_end]
--     Project window_start, window_end, a  [key: none]
--       Assign hop TS size 4 slide 2  [key: none]
--         ℜ(E) over source Events  [key: none]
-- →
-- Project window_start, window_end, __v0 AS n, __v1 AS s  [key: window_start, window_end]
--   GroupBy window_start, window_end; __v0 := count(*); __v1 := sum(a)  [key: window_start, window_end]
--     Project window_start, window_end, a  [key: none]
--       Assign hop TS size 4 slide 2  [key: none]
--         ℜ(E) over source Events  [key: none]
-- bound: window_end

-- title: window_end under another name, with a further key
SELECT b, until, COUNT(*) AS n
FROM (SELECT b, window_end AS until FROM TABLE(HOP(TABLE E, DESCRIPTOR(TS), 2, 4)) WHERE a > 0) AS w
GROUP BY b, until;

-- Project b, until, __v0 AS n  [key: b, until]
--   GroupBy b, until; __v0 := count(*)  [key: b, until]
--     Project b, window_end AS until  [key: none]
--       Filter a > 0  [key: none]
--         Assign hop TS size 4 slide 2  [key: none]
--           ℜ(E) over source Events  [key: none]
-- →
-- Project b, until, __v0 AS n  [key: b, until]
--   GroupBy b, until; __v0 := count(*)  [key: b, until]
--     Project b, window_end AS until  [key: none]
--       Filter a > 0  [key: none]
--         Assign hop TS size 4 slide 2  [key: none]
--           ℜ(E) over source Events  [key: none]
-- bound: until

-- title: windows of CUMULATE
SELECT window_end, SUM(a) AS s FROM TABLE(CUMULATE(TABLE E, DESCRIPTOR(TS), 3, 6)) GROUP BY window_end;

-- Project window_end, __v0 AS s  [key: window_end]
--   GroupBy window_end; __v0 := sum(a)  [key: window_end]
--     Project window_end, a  [key: none]
--       Assign cumulate TS size 6 slide 3  [key: none]
--         ℜ(E) over source Events  [key: none]
-- →
-- Project window_end, __v0 AS s  [key: window_end]
--   GroupBy window_end; __v0 := sum(a)  [key: window_end]
--     Project window_end, a  [key: none]
--       Assign cumulate TS size 6 slide 3  [key: none]
--         ℜ(E) over source Events  [key: none]
-- bound: window_end
