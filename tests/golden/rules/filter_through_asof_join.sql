-- title: only the condition on the left side moves
SELECT *, T.TS, R.TS AS r_since FROM T ASOF JOIN T AS R ON T.b = R.b AND T.a >= R.a WHERE T.id > 0 AND R.id < 2;

-- Project id, a, b, R.id, R.a, R.b, TS, "R.TS" AS r_since  [key: id]
--   Filter id > 0 AND "R.id" < 2  [key: id]
--     AsofJoin on b = R.b and a >= R.a  [key: id]
--       ℜ(T) over source Keyed  [key: id]
--       Project id AS R.id, a AS R.a, b AS R.b, TS AS R.TS  [key: R.id]
--         ℜ(T) over source Keyed  [key: id]
-- →
-- Project id, a, b, R.id, R.a, R.b, TS, "R.TS" AS r_since  [key: id]
--   Filter "R.id" < 2  [key: id]
--     AsofJoin on b = R.b and a >= R.a  [key: id]
--       Filter id > 0  [key: id]
--         ℜ(T) over source Keyed  [key: id]
--       Project id AS R.id, a AS R.a, b AS R.b, TS AS R.TS  [key: R.id]
--         ℜ(T) over source Keyed  [key: id]

-- title: a left join with the next row
SELECT *, T.TS, R.TS AS r_since FROM T ASOF LEFT JOIN T AS R ON T.b = R.b AND T.a < R.a WHERE T.a > 0 AND R.a IS NULL;

-- Project id, a, b, R.id, R.a, R.b, TS, "R.TS" AS r_since  [key: id]
--   Filter a > 0 AND "R.a" IS NULL  [key: id]
--     AsofLeftJoin on b = R.b and a < R.a  [key: id]
--       ℜ(T) over source Keyed  [key: id]
--       Project id AS R.id, a AS R.a, b AS R.b, TS AS R.TS  [key: R.id]
--         ℜ(T) over source Keyed  [key: id]
-- →
-- Project id, a, b, R.id, R.a, R.b, TS, "R.TS" AS r_since  [key: id]
--   Filter "R.a" IS NULL  [key: id]
--     AsofLeftJoin on b = R.b and a < R.a  [key: id]
--       Filter a > 0  [key: id]
--         ℜ(T) over source Keyed  [key: id]
--       Project id AS R.id, a AS R.a, b AS R.b, TS AS R.TS  [key: R.id]
--         ℜ(T) over source Keyed  [key: id]

-- title: a join by time alone
SELECT *, E.TS, R.TS AS r_since FROM E ASOF JOIN E AS R ON E.TS >= R.TS WHERE E.a > 0;

-- Project id, a, b, R.id, R.a, R.b, TS, "R.TS" AS r_since  [key: none]
--   Filter a > 0  [key: none]
--     AsofJoin on TS >= R.TS  [key: none]
--       ℜ(E) over source Events  [key: none]
--       Project id AS R.id, a AS R.a, b AS R.b, TS AS R.TS  [key: none]
--         ℜ(E) over source Events  [key: none]
-- →
-- Project id, a, b, R.id, R.a, R.b, TS, "R.TS" AS r_since  [key: none]
--   AsofJoin on TS >= R.TS  [key: none]
--     Filter a > 0  [key: none]
--       ℜ(E) over source Events  [key: none]
--     Project id AS R.id, a AS R.a, b AS R.b, TS AS R.TS  [key: none]
--       ℜ(E) over source Events  [key: none]
