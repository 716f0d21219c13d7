-- title: top-k
-- after: filter_through_project
SELECT * FROM (SELECT *, TS AS since FROM T QUALIFY ROW_NUMBER() OVER (PARTITION BY b ORDER BY a DESC) = 1) AS top
WHERE b IS NOT NULL AND a > 0;

-- Project id, a, b, since  [key: b]
--   Project id, a, b, TS AS since  [key: b]
--     Filter b IS NOT NULL AND a > 0  [key: b]
--       TopK row_number 1..1 of each b order by a desc  [key: b]
--         ℜ(T) over source Keyed  [key: id]
-- →
-- Project id, a, b, since  [key: b]
--   Project id, a, b, TS AS since  [key: b]
--     Filter a > 0  [key: b]
--       TopK row_number 1..1 of each b order by a desc  [key: b]
--         Filter b IS NOT NULL  [key: id]
--           ℜ(T) over source Keyed  [key: id]

-- title: a row window
SELECT *, TS FROM E [Partition By b Rows 2] WHERE b IS NOT NULL AND a > 0;

-- Project id, a, b, TS  [key: none]
--   Filter b IS NOT NULL AND a > 0  [key: none]
--     [Partition By b Rows 2]  [key: none]
--       ℜ(E) over source Events  [key: none]
-- →
-- Project id, a, b, TS  [key: none]
--   Filter a > 0  [key: none]
--     [Partition By b Rows 2]  [key: none]
--       Filter b IS NOT NULL  [key: none]
--         ℜ(E) over source Events  [key: none]

-- title: sessions
SELECT *, TS FROM TABLE(SESSION(TABLE T PARTITION BY b, DESCRIPTOR(a), 1)) WHERE b IS NOT NULL;

-- Project id, a, b, window_start, window_end, TS  [key: id]
--   Filter b IS NOT NULL  [key: id]
--     Session a gap 1 of each b  [key: id]
--       ℜ(T) over source Keyed  [key: id]
-- →
-- Project id, a, b, window_start, window_end, TS  [key: id]
--   Session a gap 1 of each b  [key: id]
--     Filter b IS NOT NULL  [key: id]
--       ℜ(T) over source Keyed  [key: id]

-- title: a function with OVER
-- after: filter_through_project
SELECT * FROM (SELECT *, TS AS since, ROW_NUMBER() OVER (PARTITION BY b ORDER BY a) AS number FROM T) AS numbered
WHERE b IS NOT NULL AND number <> 2;

-- Project id, a, b, since, number  [key: id]
--   Project id, a, b, TS AS since, __f0 AS number  [key: id]
--     Filter b IS NOT NULL AND __f0 <> 2  [key: id]
--       Over __f0 := row_number() over (partition by b order by a)  [key: id]
--         ℜ(T) over source Keyed  [key: id]
-- →
-- Project id, a, b, since, number  [key: id]
--   Project id, a, b, TS AS since, __f0 AS number  [key: id]
--     Filter __f0 <> 2  [key: id]
--       Over __f0 := row_number() over (partition by b order by a)  [key: id]
--         Filter b IS NOT NULL  [key: id]
--           ℜ(T) over source Keyed  [key: id]

-- title: two functions with the same partition
-- after: filter_through_project
SELECT * FROM (
    SELECT *, TS AS since,
        ROW_NUMBER() OVER (PARTITION BY b ORDER BY a) AS number,
        SUM(a) OVER (PARTITION BY b ORDER BY TS ROWS 1 PRECEDING) AS s
    FROM E
) AS numbered WHERE b IS NOT NULL;

-- Project id, a, b, since, number, s  [key: none]
--   Project id, a, b, TS AS since, __f0 AS number, __f1 AS s  [key: none]
--     Filter b IS NOT NULL  [key: none]
--       Over __f0 := row_number() over (partition by b order by a); __f1 := sum(a) over (partition by b order by TS rows -1..0)  [key: none]
--         ℜ(E) over source Events  [key: none]
-- →
-- Project id, a, b, since, number, s  [key: none]
--   Project id, a, b, TS AS since, __f0 AS number, __f1 AS s  [key: none]
--     Over __f0 := row_number() over (partition by b order by a); __f1 := sum(a) over (partition by b order by TS rows -1..0)  [key: none]
--       Filter b IS NOT NULL  [key: none]
--         ℜ(E) over source Events  [key: none]
