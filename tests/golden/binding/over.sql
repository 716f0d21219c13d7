-- title: a condition on ROW_NUMBER
SELECT a, c FROM (SELECT a, c, ROW_NUMBER() OVER (PARTITION BY a ORDER BY c) AS n FROM A) z WHERE n <= 2;

-- Project a, c  [key: none]
--   Project a, c  [key: none]
--     TopK row_number 1..2 of each a order by c  [key: none]
--       ℜ(A) over source TA  [key: none]

-- title: two partitions
SELECT a, RANK() OVER (PARTITION BY a ORDER BY c + 1) AS r, SUM(c) OVER (PARTITION BY b) AS s FROM A;

-- Project a, __f0 AS r, __f1 AS s  [key: none]
--   Over __f1 := sum(c) over (partition by b)  [key: none]
--     Over __f0 := rank() over (partition by a order by __o0)  [key: none]
--       Project a, b, c, d, TS, c + 1 AS __o0  [key: none]
--         ℜ(A) over source TA  [key: none]
