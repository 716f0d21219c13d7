-- title: a list in FROM; one key of the joins is an expression
SELECT A.c, e, x FROM A, B, C WHERE A.a = k AND k + 1 = B.a AND x > 0;

-- Project c, e, x  [key: none]
--   Project a, b, c, d, TS, k, x, xs, B.a, B.b, e  [key: none]
--     Join on __k0 = B.a  [key: none]
--       Project a, b, c, d, TS, k, x, xs, k + 1 AS __k0  [key: none]
--         Join on a = k  [key: none]
--           ℜ(A) over source TA  [key: none]
--           Filter x > 0.0  [key: none]
--             Project k, x, xs  [key: none]
--               ℜ(C) over source TC  [key: none]
--       Project a AS B.a, b AS B.b, e  [key: none]
--         ℜ(B) over source TB  [key: none]

-- title: conditions of a left join and of WHERE
SELECT A.c, e FROM A LEFT JOIN B ON A.a = B.a AND A.c > 1 AND B.e > 2 WHERE A.d = 1;

-- Project c, e  [key: none]
--   LeftJoin on a = B.a and c > 1  [key: none]
--     Filter d = 1  [key: none]
--       ℜ(A) over source TA  [key: none]
--     Filter e > 2  [key: none]
--       Project a AS B.a, b AS B.b, e  [key: none]
--         ℜ(B) over source TB  [key: none]

-- title: a full join with USING
SELECT a, A.b, e FROM A FULL JOIN B USING (a);

-- Project __u AS a, b, e  [key: none]
--   Project a, b, c, d, TS, B.a, B.b, e, COALESCE(a, "B.a") AS __u  [key: none]
--     FullJoin on a = B.a  [key: none]
--       ℜ(A) over source TA  [key: none]
--       Project a AS B.a, b AS B.b, e  [key: none]
--         ℜ(B) over source TB  [key: none]

-- title: a left join with UNNEST
SELECT k, y FROM C LEFT JOIN UNNEST(xs) AS t(y) ON TRUE;

-- Project k, y  [key: none]
--   Unnest xs as y or NULL  [key: none]
--     ℜ(C) over source TC  [key: none]

-- title: a correlated LATERAL
SELECT A.a, z.e FROM A, LATERAL (SELECT e FROM B WHERE B.a = A.a) z;

-- Project a, e  [key: none]
--   Join on a = __d0  [key: none]
--     ℜ(A) over source TA  [key: none]
--     Project __d0, e  [key: none]
--       Project a AS __d0, a, b, e, TS  [key: none]
--         ℜ(B) over source TB  [key: none]
