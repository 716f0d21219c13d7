-- title: an expression that is used once
SELECT r, id IS NULL AS y FROM (SELECT id, 6 / a AS r FROM T) AS p;

-- Project r, id IS NULL AS y  [key: none]
--   Project id, 6 / a AS r  [key: id]
--     ℜ(T) over source Keyed  [key: id]
-- →
-- Project 6 / a AS r, id IS NULL AS y  [key: none]
--   ℜ(T) over source Keyed  [key: id]

-- title: columns in another order
SELECT id, a FROM (SELECT a, id FROM T) AS p;

-- Project id, a  [key: id]
--   Project a, id  [key: id]
--     ℜ(T) over source Keyed  [key: id]
-- →
-- Project id, a  [key: id]
--   ℜ(T) over source Keyed  [key: id]
