-- title: the condition on the element stays
SELECT a, tags, tag FROM (SELECT a, [b, 'z'] AS tags FROM T) AS p, UNNEST(tags) AS u(tag)
WHERE a > 0 AND tag IS NOT NULL;

-- Project a, tags, tag  [key: none]
--   Filter a > 0 AND tag IS NOT NULL  [key: none]
--     Unnest tags as tag  [key: none]
--       Project a, [b, 'z'] AS tags  [key: none]
--         ℜ(T) over source Keyed  [key: id]
-- →
-- Project a, tags, tag  [key: none]
--   Filter tag IS NOT NULL  [key: none]
--     Unnest tags as tag  [key: none]
--       Filter a > 0  [key: none]
--         Project a, [b, 'z'] AS tags  [key: none]
--           ℜ(T) over source Keyed  [key: id]
