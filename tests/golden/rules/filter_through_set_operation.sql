-- title: EXCEPT
SELECT * FROM (SELECT a FROM T EXCEPT SELECT a FROM E) AS s WHERE a > 0;

-- Project a  [key: none]
--   Filter a > 0  [key: none]
--     Except  [key: none]
--       Project a  [key: none]
--         ℜ(T) over source Keyed  [key: id]
--       Project a  [key: none]
--         ℜ(E) over source Events  [key: none]
-- →
-- Project a  [key: none]
--   Except  [key: none]
--     Filter a > 0  [key: none]
--       Project a  [key: none]
--         ℜ(T) over source Keyed  [key: id]
--     Filter a > 0  [key: none]
--       Project a  [key: none]
--         ℜ(E) over source Events  [key: none]

-- title: EXCEPT ALL
SELECT * FROM (SELECT a FROM T EXCEPT ALL SELECT a FROM E) AS s WHERE a > 0;

-- Project a  [key: none]
--   Filter a > 0  [key: none]
--     Except all  [key: none]
--       Project a  [key: none]
--         ℜ(T) over source Keyed  [key: id]
--       Project a  [key: none]
--         ℜ(E) over source Events  [key: none]
-- →
-- Project a  [key: none]
--   Except all  [key: none]
--     Filter a > 0  [key: none]
--       Project a  [key: none]
--         ℜ(T) over source Keyed  [key: id]
--     Filter a > 0  [key: none]
--       Project a  [key: none]
--         ℜ(E) over source Events  [key: none]

-- title: INTERSECT
SELECT * FROM (SELECT a FROM T INTERSECT SELECT a FROM E) AS s WHERE a > 0;

-- Project a  [key: none]
--   Filter a > 0  [key: none]
--     Intersect  [key: none]
--       Project a  [key: none]
--         ℜ(T) over source Keyed  [key: id]
--       Project a  [key: none]
--         ℜ(E) over source Events  [key: none]
-- →
-- Project a  [key: none]
--   Intersect  [key: none]
--     Filter a > 0  [key: none]
--       Project a  [key: none]
--         ℜ(T) over source Keyed  [key: id]
--     Filter a > 0  [key: none]
--       Project a  [key: none]
--         ℜ(E) over source Events  [key: none]

-- title: INTERSECT ALL
SELECT * FROM (SELECT a FROM T INTERSECT ALL SELECT a FROM E) AS s WHERE a > 0;

-- Project a  [key: none]
--   Filter a > 0  [key: none]
--     Intersect all  [key: none]
--       Project a  [key: none]
--         ℜ(T) over source Keyed  [key: id]
--       Project a  [key: none]
--         ℜ(E) over source Events  [key: none]
-- →
-- Project a  [key: none]
--   Intersect all  [key: none]
--     Filter a > 0  [key: none]
--       Project a  [key: none]
--         ℜ(T) over source Keyed  [key: id]
--     Filter a > 0  [key: none]
--       Project a  [key: none]
--         ℜ(E) over source Events  [key: none]
