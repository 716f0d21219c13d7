-- title: the columns of PARTITION BY are kept
SELECT b, id AS x FROM E [Partition By b Rows 2];

-- Project b, id AS x  [key: none]
--   [Partition By b Rows 2]  [key: none]
--     ℜ(E) over source Events  [key: none]
-- →
-- [Partition By b Rows 2]  [key: none]
--   Project b, id AS x  [key: none]
--     ℜ(E) over source Events  [key: none]

-- title: a window with a slide
SELECT a FROM E [Rows 2 Slide 2];

-- Project a  [key: none]
--   [Rows 2 Slide 2]  [key: none]
--     ℜ(E) over source Events  [key: none]
-- →
-- [Rows 2 Slide 2]  [key: none]
--   Project a  [key: none]
--     ℜ(E) over source Events  [key: none]
