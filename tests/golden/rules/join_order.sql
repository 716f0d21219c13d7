-- title: the relation with a key comes first
SELECT *, E.TS, Q.TS AS q_since, R.TS AS r_since
FROM E JOIN E AS Q ON Q.a < E.a JOIN T AS R ON E.id = R.id AND Q.id = R.id;

-- Project id, a, b, Q.id, Q.a, Q.b, R.id, R.a, R.b, TS, "Q.TS" AS q_since, "R.TS" AS r_since  [key: none]
--   Join on R.id = Q.id and "Q.a" < a  [key: none]
--     Join on id = R.id  [key: none]
--       ℜ(E) over source Events  [key: none]
--       Project id AS R.id, a AS R.a, b AS R.b, TS AS R.TS  [key: R.id]
--         ℜ(T) over source Keyed  [key: id]
--     Project id AS Q.id, a AS Q.a, b AS Q.b, TS AS Q.TS  [key: none]
--       ℜ(E) over source Events  [key: none]
-- →
-- Project id, a, b, Q.id, Q.a, Q.b, R.id, R.a, R.b, TS, "Q.TS" AS q_since, "R.TS" AS r_since  [key: none]
--   Project id, a, b, TS, R.id, R.a, R.b, R.TS, Q.id, Q.a, Q.b, Q.TS  [key: none]
--     Join on R.id = Q.id and "Q.a" < a  [key: none]
--       Join on R.id = id  [key: none]
--         Project id AS R.id, a AS R.a, b AS R.b, TS AS R.TS  [key: R.id]
--           ℜ(T) over source Keyed  [key: id]
--         ℜ(E) over source Events  [key: none]
--       Project id AS Q.id, a AS Q.a, b AS Q.b, TS AS Q.TS  [key: none]
--         ℜ(E) over source Events  [key: none]

-- title: the window comes first, because it has few rows
SELECT *, E.TS, Q.TS AS q_since, W.TS AS w_since
FROM E JOIN E AS Q ON E.id = Q.id AND E.a > Q.a JOIN E [Now] AS W ON E.a = W.a;

-- Project id, a, b, Q.id, Q.a, Q.b, W.id, W.a, W.b, TS, "Q.TS" AS q_since, "W.TS" AS w_since  [key: none]
--   Join on a = W.a  [key: none]
--     Join on id = Q.id and a > "Q.a"  [key: none]
--       ℜ(E) over source Events  [key: none]
--       Project id AS Q.id, a AS Q.a, b AS Q.b, TS AS Q.TS  [key: none]
--         ℜ(E) over source Events  [key: none]
--     Project id AS W.id, a AS W.a, b AS W.b, TS AS W.TS  [key: none]
--       [Range 0]  [key: none]
--         ℜ(E) over source Events  [key: none]
-- →
-- Project id, a, b, Q.id, Q.a, Q.b, W.id, W.a, W.b, TS, "Q.TS" AS q_since, "W.TS" AS w_since  [key: none]
--   Project id, a, b, TS, Q.id, Q.a, Q.b, Q.TS, W.id, W.a, W.b, W.TS  [key: none]
--     Join on id = Q.id and a > "Q.a"  [key: none]
--       Join on W.a = a  [key: none]
--         Project id AS W.id, a AS W.a, b AS W.b, TS AS W.TS  [key: none]
--           [Range 0]  [key: none]
--             ℜ(E) over source Events  [key: none]
--         ℜ(E) over source Events  [key: none]
--       Project id AS Q.id, a AS Q.a, b AS Q.b, TS AS Q.TS  [key: none]
--         ℜ(E) over source Events  [key: none]
