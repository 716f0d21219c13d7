-- title: UNION, ORDER BY and LIMIT
SELECT a FROM A UNION SELECT e FROM B ORDER BY 1 LIMIT 2;

-- TopK row_number 1..2 order by a  [key: a]
--   Distinct  [key: a]
--     Union  [key: none]
--       Project a  [key: none]
--         Project a  [key: none]
--           ℜ(A) over source TA  [key: none]
--       Project e AS a  [key: none]
--         Project e  [key: none]
--           ℜ(B) over source TB  [key: none]

-- title: EXCEPT ALL
SELECT c FROM A EXCEPT ALL SELECT e FROM B;

-- Except all  [key: none]
--   Project c  [key: none]
--     ℜ(A) over source TA  [key: none]
--   Project e AS c  [key: none]
--     Project e  [key: none]
--       ℜ(B) over source TB  [key: none]
