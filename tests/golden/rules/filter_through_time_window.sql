-- title: a window without a slide
SELECT *, TS FROM E [Range 3] WHERE a > 0;

-- Project id, a, b, TS  [key: none]
--   Filter a > 0  [key: none]
--     [Range 3]  [key: none]
--       ℜ(E) over source Events  [key: none]
-- →
-- Project id, a, b, TS  [key: none]
--   [Range 3]  [key: none]
--     Filter a > 0  [key: none]
--       ℜ(E) over source Events  [key: none]

-- title: a window with a slide
SELECT *, TS FROM E [Range 2 Slide 4] WHERE a > 0;

-- Project id, a, b, TS  [key: none]
--   Filter a > 0  [key: none]
--     [Range 2 Slide 4]  [key: none]
--       ℜ(E) over source Events  [key: none]
-- →
-- Project id, a, b, TS  [key: none]
--   [Range 2 Slide 4]  [key: none]
--     Filter a > 0  [key: none]
--       ℜ(E) over source Events  [key: none]
