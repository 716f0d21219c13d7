-- title: a window without a slide
SELECT a FROM E [Range 3];

-- Project a  [key: none]
--   [Range 3]  [key: none]
--     ℜ(E) over source Events  [key: none]
-- →
-- [Range 3]  [key: none]
--   Project a  [key: none]
--     ℜ(E) over source Events  [key: none]

-- title: a window with a slide
SELECT b AS x FROM E [Range 1 Slide 3];

-- Project b AS x  [key: none]
--   [Range 1 Slide 3]  [key: none]
--     ℜ(E) over source Events  [key: none]
-- →
-- [Range 1 Slide 3]  [key: none]
--   Project b AS x  [key: none]
--     ℜ(E) over source Events  [key: none]
