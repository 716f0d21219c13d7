-- title: both sides of a join
SELECT T.a, R.b FROM T JOIN T AS R ON T.id = R.id;

-- Project a, "R.b" AS b  [key: none]
--   Join on id = R.id  [key: id]
--     ℜ(T) over source Keyed  [key: id]
--     Project id AS R.id, a AS R.a, b AS R.b  [key: R.id]
--       ℜ(T) over source Keyed  [key: id]
-- →
-- Project a, "R.b" AS b  [key: none]
--   Join on id = R.id  [key: id]
--     Project id, a  [key: id]
--       ℜ(T) over source Keyed  [key: id]
--     Project id AS R.id, b AS R.b  [key: R.id]
--       ℜ(T) over source Keyed  [key: id]

-- title: the key of the result stays
SELECT T.id, R.b FROM T JOIN T AS R ON T.id = R.id;

-- Project id, "R.b" AS b  [key: id]
--   Join on id = R.id  [key: id]
--     ℜ(T) over source Keyed  [key: id]
--     Project id AS R.id, a AS R.a, b AS R.b  [key: R.id]
--       ℜ(T) over source Keyed  [key: id]
-- →
-- Project id, "R.b" AS b  [key: id]
--   Join on id = R.id  [key: id]
--     Project id  [key: id]
--       ℜ(T) over source Keyed  [key: id]
--     Project id AS R.id, b AS R.b  [key: R.id]
--       ℜ(T) over source Keyed  [key: id]

-- title: an expression that may fail stays
SELECT R.a FROM (SELECT id, b, 6 / a AS r FROM T) AS p JOIN E AS R ON p.id = R.id;

-- Project a  [key: none]
--   Join on id = R.id  [key: none]
--     Project id, b, 6 / a AS r  [key: id]
--       ℜ(T) over source Keyed  [key: id]
--     Project id AS R.id, a, b AS R.b  [key: none]
--       ℜ(E) over source Events  [key: none]
-- →
-- Project a  [key: none]
--   Join on id = R.id  [key: none]
--     Project id  [key: id]
--       Project id, 6 / a AS r  [key: id]
--         ℜ(T) over source Keyed  [key: id]
--     Project id AS R.id, a  [key: none]
--       ℜ(E) over source Events  [key: none]

-- title: one column stays if none is read
SELECT COUNT(*) AS n FROM E;

-- Project __v0 AS n  [key: none]
--   GroupBy (); __v0 := count(*)  [key: none]
--     ℜ(E) over source Events  [key: none]
-- →
-- Project __v0 AS n  [key: none]
--   GroupBy (); __v0 := count(*)  [key: none]
--     Project id  [key: none]
--       ℜ(E) over source Events  [key: none]

-- title: a semi-join
SELECT id FROM T WHERE a IN (SELECT a FROM E);

-- Project id  [key: id]
--   SemiJoin on a = a'  [key: id]
--     ℜ(T) over source Keyed  [key: id]
--     Project a AS a'  [key: none]
--       Project a  [key: none]
--         ℜ(E) over source Events  [key: none]
-- →
-- Project id  [key: id]
--   SemiJoin on a = a'  [key: id]
--     Project id, a  [key: id]
--       ℜ(T) over source Keyed  [key: id]
--     Project a AS a'  [key: none]
--       Project a  [key: none]
--         ℜ(E) over source Events  [key: none]

-- title: UNION ALL
SELECT b FROM (SELECT *, TS AS since FROM T UNION ALL SELECT *, TS AS since FROM E) AS u;

-- Project b  [key: none]
--   Union  [key: none]
--     Project id, a, b, TS AS since  [key: id]
--       ℜ(T) over source Keyed  [key: id]
--     Project id, a, b, TS AS since  [key: none]
--       ℜ(E) over source Events  [key: none]
-- →
-- Project b  [key: none]
--   Union  [key: none]
--     Project b  [key: none]
--       ℜ(T) over source Keyed  [key: id]
--     Project b  [key: none]
--       ℜ(E) over source Events  [key: none]

-- title: top-k of an append-only relation
SELECT id FROM (SELECT * FROM E ORDER BY a LIMIT 2) AS top;

-- Project id  [key: none]
--   TopK row_number 1..2 order by a  [key: none]
--     Project id, a, b  [key: none]
--       ℜ(E) over source Events  [key: none]
-- →
-- Project id  [key: none]
--   TopK row_number 1..2 order by a  [key: none]
--     Project id, a  [key: none]
--       ℜ(E) over source Events  [key: none]

-- title: a synchronisation above a join
SELECT a FROM R[Every2](Pairs);

-- Project a  [key: none]
--   Sync every 2 at 0  [key: id]
--     Project id, a, b, TS AS since, "R.id" AS r_id, "R.a" AS r_a, "R.b" AS r_b, "R.TS" AS r_since  [key: id]
--       Join on id = R.id  [key: id]
--         ℜ(T) over source Keyed  [key: id]
--         Project id AS R.id, a AS R.a, b AS R.b, TS AS R.TS  [key: R.id]
--           ℜ(T) over source Keyed  [key: id]
-- →
-- Project a  [key: none]
--   Sync every 2 at 0  [key: none]
--     Project a  [key: none]
--       Join on id = R.id  [key: id]
--         Project id, a  [key: id]
--           ℜ(T) over source Keyed  [key: id]
--         Project id AS R.id  [key: R.id]
--           ℜ(T) over source Keyed  [key: id]

-- title: an as-of join keeps all columns of its right side, because they order rows of equal times
SELECT T.id, R.a FROM T ASOF JOIN T AS R ON T.b = R.b AND T.a >= R.a;

-- Project id, "R.a" AS a  [key: id]
--   AsofJoin on b = R.b and a >= R.a  [key: id]
--     ℜ(T) over source Keyed  [key: id]
--     Project id AS R.id, a AS R.a, b AS R.b  [key: R.id]
--       ℜ(T) over source Keyed  [key: id]
-- →
-- Project id, "R.a" AS a  [key: id]
--   AsofJoin on b = R.b and a >= R.a  [key: id]
--     Project id, a, b  [key: id]
--       ℜ(T) over source Keyed  [key: id]
--     Project id AS R.id, a AS R.a, b AS R.b  [key: R.id]
--       ℜ(T) over source Keyed  [key: id]

-- title: an as-of join by the key of its right side
SELECT E.id, R.b FROM E ASOF LEFT JOIN T AS R ON E.id = R.id AND E.TS >= R.TS;

-- Project id, "R.b" AS b  [key: none]
--   AsofLeftJoin on id = R.id and TS >= R.TS  [key: none]
--     ℜ(E) over source Events  [key: none]
--     Project id AS R.id, a AS R.a, b AS R.b, TS AS R.TS  [key: R.id]
--       ℜ(T) over source Keyed  [key: id]
-- →
-- Project id, "R.b" AS b  [key: none]
--   AsofLeftJoin on id = R.id and TS >= R.TS  [key: none]
--     Project id, TS  [key: none]
--       ℜ(E) over source Events  [key: none]
--     Project id AS R.id, b AS R.b, TS AS R.TS  [key: R.id]
--       ℜ(T) over source Keyed  [key: id]
