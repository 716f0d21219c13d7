-- title: Rstream at every instant
SELECT Rstream(a) FROM E [Now] WHERE a > 0;

-- Project a  [key: none]
--   Rstream  [key: none]
--     Project a  [key: none]
--       Filter a > 0  [key: none]
--         [Range 0]  [key: none]
--           ℜ(E) over source Events  [key: none]
-- →
-- Project a  [key: none]
--   Project a  [key: none]
--     Filter a > 0  [key: none]
--       ℜ(E) over source Events  [key: none]
