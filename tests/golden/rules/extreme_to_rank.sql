-- title: the rows of each window that reach its maximum
WITH counted AS (
    SELECT b, window_end, COUNT(*) AS n FROM TABLE(HOP(TABLE E, DESCRIPTOR(TS), 2, 4)) GROUP BY b, window_end
)
SELECT * FROM counted JOIN (SELECT window_end AS until, MAX(n) AS most FROM counted GROUP BY window_end) AS m
ON window_end = until AND n >= most;

-- Project b, window_end, n, until, most  [key: b, window_end]
--   Join on window_end = until and n >= most  [key: b, window_end]
--     Project b, window_end, __v0 AS n  [key: b, window_end]
--       GroupBy b, window_end; __v0 := count(*)  [key: b, window_end]
--         Project b, window_end  [key: none]
--           Assign hop TS size 4 slide 2  [key: none]
--             ℜ(E) over source Events  [key: none]
--     Project window_end AS until, __v0 AS most  [key: until]
--       GroupBy window_end; __v0 := max(n)  [key: window_end]
--         Project window_end, n  [key: none]
--           Project b, window_end, __v0 AS n  [key: b, window_end]
--             GroupBy b, window_end; __v0 := count(*)  [key: b, window_end]
--               Project b, window_end  [key: none]
--                 Assign hop TS size 4 slide 2  [key: none]
--                   ℜ(E) over source Events  [key: none]
-- →
-- Project b, window_end, n, until, most  [key: b, window_end]
--   Project b, window_end, n, window_end AS until, n AS most  [key: b, window_end]
--     TopK rank 1..1 of each window_end order by n desc  [key: b, window_end]
--       Project b, window_end, __v0 AS n  [key: b, window_end]
--         GroupBy b, window_end; __v0 := count(*)  [key: b, window_end]
--           Project b, window_end  [key: none]
--             Assign hop TS size 4 slide 2  [key: none]
--               ℜ(E) over source Events  [key: none]

-- title: equality with the maximum, which is on the left side
SELECT *, T.TS FROM (SELECT b AS m_b, MAX(a) AS most FROM T GROUP BY b) AS m JOIN T ON most = a AND m_b = b;

-- Project m_b, most, id, a, b, TS  [key: id]
--   Join on most = a and m_b = b  [key: id]
--     Project b AS m_b, __v0 AS most  [key: m_b]
--       GroupBy b; __v0 := max(a)  [key: b]
--         Project b, a  [key: none]
--           ℜ(T) over source Keyed  [key: id]
--     ℜ(T) over source Keyed  [key: id]
-- →
-- Project m_b, most, id, a, b, TS  [key: id]
--   Project b AS m_b, a AS most, id, a, b, TS  [key: id]
--     TopK rank 1..1 of each b order by a desc  [key: id]
--       Filter b IS NOT NULL AND a IS NOT NULL  [key: id]
--         ℜ(T) over source Keyed  [key: id]

-- title: the minimum of the whole relation, with a further condition
SELECT *, T.TS FROM T JOIN (SELECT MIN(a) AS least FROM T) AS m ON id < least + 2 AND a <= least;

-- Project id, a, b, least, TS  [key: none]
--   Join on id < least + 2 AND a <= least  [key: none]
--     ℜ(T) over source Keyed  [key: id]
--     Project __v0 AS least  [key: none]
--       GroupBy (); __v0 := min(a)  [key: none]
--         Project a  [key: none]
--           ℜ(T) over source Keyed  [key: id]
-- →
-- Project id, a, b, least, TS  [key: id]
--   Project id, a, b, TS, a AS least  [key: id]
--     Filter id < a + 2  [key: id]
--       TopK rank 1..1 order by a  [key: id]
--         Filter a IS NOT NULL  [key: id]
--           ℜ(T) over source Keyed  [key: id]

-- title: a left join whose filter removes the padded rows
SELECT *, T.TS FROM T LEFT JOIN (SELECT b AS l_b, MIN(a) AS least FROM T GROUP BY b) AS m ON b = l_b
WHERE least = a AND id < least + 2;

-- Project id, a, b, l_b, least, TS  [key: id]
--   Filter least = a AND id < least + 2  [key: id]
--     LeftJoin on b = l_b  [key: id]
--       ℜ(T) over source Keyed  [key: id]
--       Project b AS l_b, __v0 AS least  [key: l_b]
--         GroupBy b; __v0 := min(a)  [key: b]
--           Project b, a  [key: none]
--             ℜ(T) over source Keyed  [key: id]
-- →
-- Project id, a, b, l_b, least, TS  [key: id]
--   Project id, a, b, TS, b AS l_b, a AS least  [key: id]
--     Filter id < a + 2  [key: id]
--       TopK rank 1..1 of each b order by a  [key: id]
--         Filter b IS NOT NULL AND a IS NOT NULL  [key: id]
--           ℜ(T) over source Keyed  [key: id]

-- title: groups with a count that no other group exceeds
SELECT b, COUNT(*) AS n FROM T GROUP BY b HAVING COUNT(*) >= ALL (SELECT COUNT(*) FROM T GROUP BY b);

-- Project b, __v0 AS n  [key: b]
--   AntiJoin on __v0 < column1  [key: b]
--     GroupBy b; __v0 := count(*)  [key: b]
--       Project b  [key: none]
--         ℜ(T) over source Keyed  [key: id]
--     Project __v0 AS column1  [key: none]
--       GroupBy b; __v0 := count(*)  [key: b]
--         Project b  [key: none]
--           ℜ(T) over source Keyed  [key: id]
-- →
-- Project b, __v0 AS n  [key: b]
--   TopK rank 1..1 order by __v0 desc  [key: b]
--     GroupBy b; __v0 := count(*)  [key: b]
--       Project b  [key: none]
--         ℜ(T) over source Keyed  [key: id]

-- title: the least id of each instant of a stream
SELECT *, TS FROM E WHERE id <= ALL (SELECT R.id FROM E AS R WHERE R.TS = E.TS);

-- Project id, a, b, TS  [key: none]
--   AntiJoin on TS = __d0 and id > "id'"  [key: none]
--     ℜ(E) over source Events  [key: none]
--     Project __d0, id AS id'  [key: none]
--       Project __d0, id  [key: none]
--         Project TS AS __d0, id, a, b, TS  [key: none]
--           ℜ(E) over source Events  [key: none]
-- →
-- Project id, a, b, TS  [key: none]
--   TopK rank 1..1 of each TS order by id  [key: none]
--     ℜ(E) over source Events  [key: none]
