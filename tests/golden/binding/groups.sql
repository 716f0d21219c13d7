-- title: an expression as key, FILTER and HAVING
SELECT a % 2 AS p, SUM(c * 2) FILTER (WHERE d > 1) AS s FROM A GROUP BY 1 HAVING COUNT(*) > 1;

-- Project __g0 AS p, __v0 AS s  [key: p]
--   Filter __v1 > 1  [key: __g0]
--     GroupBy __g0; __v0 := sum(__a1) filter __a2; __v1 := count(*)  [key: __g0]
--       Project a % 2 AS __g0, c * 2 AS __a1, d > 1 AS __a2  [key: none]
--         ℜ(A) over source TA  [key: none]

-- title: ROLLUP and GROUPING
SELECT a, b, SUM(c) AS s, GROUPING(a) AS g FROM A GROUP BY ROLLUP (a, b);

-- Project a, b, __v0 AS s, __b0 AS g  [key: none]
--   Union  [key: none]
--     Project a, b, __v0, 0 AS __b0  [key: a, b]
--       GroupBy a, b; __v0 := sum(c)  [key: a, b]
--         Project a, b, c  [key: none]
--           ℜ(A) over source TA  [key: none]
--     Project a, NULL AS b, __v0, 0 AS __b0  [key: a]
--       GroupBy a; __v0 := sum(c)  [key: a]
--         Project a, b, c  [key: none]
--           ℜ(A) over source TA  [key: none]
--     Project NULL AS a, NULL AS b, __v0, 1 AS __b0  [key: none]
--       GroupBy (); __v0 := sum(c)  [key: none]
--         Project a, b, c  [key: none]
--           ℜ(A) over source TA  [key: none]

-- title: DISTINCT ON
SELECT DISTINCT ON (a) a, c FROM A ORDER BY a, c DESC;

-- TopK row_number 1..1 of each a order by a, c desc  [key: a]
--   Project a, c  [key: none]
--     ℜ(A) over source TA  [key: none]

-- title: an aggregate with DISTINCT and ORDER BY
SELECT a, STRING_AGG(DISTINCT b, '-' ORDER BY b) AS s FROM A GROUP BY a;

-- Project a, __v0 AS s  [key: a]
--   GroupBy a; __v0 := string_agg(DISTINCT b, '-' order by b)  [key: a]
--     Project a, b  [key: none]
--       ℜ(A) over source TA  [key: none]
