-- title: a comparison with the row of the same key
SELECT *, TS FROM E WHERE a < ANY (SELECT a FROM T AS R WHERE R.id = E.id);

-- Project id, a, b, TS  [key: none]
--   SemiJoin on id = __d0 and a < "a'"  [key: none]
--     ℜ(E) over source Events  [key: none]
--     Project __d0, a AS a'  [key: __d0]
--       Project __d0, a  [key: __d0]
--         Project id AS __d0, id, a, b, TS  [key: __d0]
--           ℜ(T) over source Keyed  [key: id]
-- →
-- Project id, a, b, TS  [key: none]
--   Project id, a, b, TS  [key: none]
--     Join on id = __d0 and a < "a'"  [key: none]
--       ℜ(E) over source Events  [key: none]
--       Project __d0, a AS a'  [key: __d0]
--         Project __d0, a  [key: __d0]
--           Project id AS __d0, id, a, b, TS  [key: __d0]
--             ℜ(T) over source Keyed  [key: id]
