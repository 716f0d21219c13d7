-- title: UNION ALL
SELECT * FROM (SELECT *, TS AS since FROM T UNION ALL SELECT *, TS AS since FROM E) AS u
WHERE since <= Now AND Now < a + 6;

-- Project id, a, b, since  [key: none]
--   NowFilter Now in [since, a + 6)  [key: none]
--     Union  [key: none]
--       Project id, a, b, TS AS since  [key: id]
--         ℜ(T) over source Keyed  [key: id]
--       Project id, a, b, TS AS since  [key: none]
--         ℜ(E) over source Events  [key: none]
-- →
-- Project id, a, b, since  [key: none]
--   Union  [key: none]
--     NowFilter Now in [since, a + 6)  [key: id]
--       Project id, a, b, TS AS since  [key: id]
--         ℜ(T) over source Keyed  [key: id]
--     NowFilter Now in [since, a + 6)  [key: none]
--       Project id, a, b, TS AS since  [key: none]
--         ℜ(E) over source Events  [key: none]

-- title: a projection
SELECT * FROM (SELECT a, TS AS since FROM T) AS p WHERE since <= Now AND Now < a + 6;

-- Project a, since  [key: none]
--   NowFilter Now in [since, a + 6)  [key: none]
--     Project a, TS AS since  [key: none]
--       ℜ(T) over source Keyed  [key: id]
-- →
-- Project a, since  [key: none]
--   Project a, TS AS since  [key: none]
--     NowFilter Now in [TS, a + 6)  [key: id]
--       ℜ(T) over source Keyed  [key: id]

-- title: a join; the condition has only a lower bound
-- after: now_filter_below
SELECT * FROM (SELECT *, E.TS AS since, R.TS AS r_since FROM E JOIN T AS R ON E.id = R.id) AS p WHERE since <= Now;

-- Project id, a, b, R.id, R.a, R.b, since, r_since  [key: none]
--   Project id, a, b, R.id, R.a, R.b, TS AS since, "R.TS" AS r_since  [key: none]
--     NowFilter Now in [TS, ∞)  [key: none]
--       Join on id = R.id  [key: none]
--         ℜ(E) over source Events  [key: none]
--         Project id AS R.id, a AS R.a, b AS R.b, TS AS R.TS  [key: R.id]
--           ℜ(T) over source Keyed  [key: id]
-- →
-- Project id, a, b, R.id, R.a, R.b, since, r_since  [key: none]
--   Project id, a, b, R.id, R.a, R.b, TS AS since, "R.TS" AS r_since  [key: none]
--     Join on id = R.id  [key: none]
--       NowFilter Now in [TS, ∞)  [key: none]
--         ℜ(E) over source Events  [key: none]
--       Project id AS R.id, a AS R.a, b AS R.b, TS AS R.TS  [key: R.id]
--         ℜ(T) over source Keyed  [key: id]

-- title: a join; both bounds read one side
-- after: now_filter_below
SELECT * FROM (SELECT *, T.TS AS since, R.TS AS r_since FROM T JOIN T AS R ON T.id = R.id) AS p
WHERE since <= Now AND Now < a;

-- Project id, a, b, R.id, R.a, R.b, since, r_since  [key: id]
--   Project id, a, b, R.id, R.a, R.b, TS AS since, "R.TS" AS r_since  [key: id]
--     NowFilter Now in [TS, a)  [key: id]
--       Join on id = R.id  [key: id]
--         ℜ(T) over source Keyed  [key: id]
--         Project id AS R.id, a AS R.a, b AS R.b, TS AS R.TS  [key: R.id]
--           ℜ(T) over source Keyed  [key: id]
-- →
-- Project id, a, b, R.id, R.a, R.b, since, r_since  [key: id]
--   Project id, a, b, R.id, R.a, R.b, TS AS since, "R.TS" AS r_since  [key: id]
--     Join on id = R.id  [key: id]
--       NowFilter Now in [TS, a)  [key: id]
--         ℜ(T) over source Keyed  [key: id]
--       Project id AS R.id, a AS R.a, b AS R.b, TS AS R.TS  [key: R.id]
--         ℜ(T) over source Keyed  [key: id]
