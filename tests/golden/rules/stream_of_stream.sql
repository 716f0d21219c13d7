-- title: Istream of an append-only relation
SELECT Istream(a) FROM E WHERE a > 0;

-- Project a  [key: none]
--   Istream  [key: none]
--     Project a  [key: none]
--       Filter a > 0  [key: none]
--         ℜ(E) over source Events  [key: none]
-- →
-- Project a  [key: none]
--   Project a  [key: none]
--     Filter a > 0  [key: none]
--       ℜ(E) over source Events  [key: none]
