-- title: EXISTS
SELECT a FROM A WHERE EXISTS (SELECT 1 FROM B WHERE B.a = A.a AND B.e > 1);

-- Project a  [key: none]
--   SemiJoin on a = __d0  [key: none]
--     ℜ(A) over source TA  [key: none]
--     Project __d0, TRUE AS __t  [key: none]
--       Project __d0, 1 AS column1  [key: none]
--         Project a AS __d0, a, b, e, TS  [key: none]
--           Filter e > 1  [key: none]
--             ℜ(B) over source TB  [key: none]

-- title: NOT IN without NULLs
SELECT a FROM A WHERE a NOT IN (SELECT a FROM B);

-- Project a  [key: none]
--   AntiJoin on a = a'  [key: none]
--     ℜ(A) over source TA  [key: none]
--     Project a AS a'  [key: none]
--       Project a  [key: none]
--         ℜ(B) over source TB  [key: none]

-- title: NOT IN with NULLs on both sides
SELECT a FROM A WHERE c NOT IN (SELECT e FROM B);

-- Project a  [key: none]
--   AntiJoin on c IS NULL  [key: none]
--     AntiJoin  [key: none]
--       AntiJoin on c = e  [key: none]
--         ℜ(A) over source TA  [key: none]
--         Project e  [key: none]
--           ℜ(B) over source TB  [key: none]
--       Distinct  [key: __t]
--         Project TRUE AS __t  [key: none]
--           Filter e IS NULL  [key: none]
--             Project e  [key: none]
--               ℜ(B) over source TB  [key: none]
--     Distinct  [key: __t]
--       Project TRUE AS __t  [key: none]
--         Project e  [key: none]
--           ℜ(B) over source TB  [key: none]

-- title: a comparison with ALL
SELECT a FROM A WHERE c >= ALL (SELECT e FROM B WHERE B.b = A.b);

-- Project a  [key: none]
--   AntiJoin on b = __d0 and (c < e) IS NOT FALSE  [key: none]
--     ℜ(A) over source TA  [key: none]
--     Project __d0, e  [key: none]
--       Project b AS __d0, a, b, e, TS  [key: none]
--         Filter b IS NOT NULL  [key: none]
--           ℜ(B) over source TB  [key: none]

-- title: a correlated count
SELECT a, (SELECT COUNT(*) FROM B WHERE B.a = A.a) AS n FROM A;

-- Project a, __n AS n  [key: none]
--   Project a, b, c, d, TS, __d0, column1, COALESCE(column1, 0) AS __n  [key: none]
--     LeftJoin on a = __d0  [key: none]
--       ℜ(A) over source TA  [key: none]
--       Project __d0, __v0 AS column1  [key: __d0]
--         GroupBy __d0; __v0 := count(*)  [key: __d0]
--           Project __d0  [key: none]
--             Project a AS __d0, a, b, e, TS  [key: none]
--               ℜ(B) over source TB  [key: none]

-- title: a count correlated by an inequality
SELECT a, (SELECT COUNT(*) + 1 FROM B WHERE B.e > A.c) AS n FROM A;

-- Project a, column1 AS n  [key: none]
--   LeftJoin on c is __d0  [key: none]
--     ℜ(A) over source TA  [key: none]
--     Project __d0, __v0 + 1 AS column1  [key: __d0]
--       Project __d0, COALESCE(__v0, 0) AS __v0  [key: __d0]
--         LeftJoin on __d0 is __d0'  [key: __d0]
--           Distinct  [key: __d0]
--             Project c AS __d0  [key: none]
--               ℜ(A) over source TA  [key: none]
--           Project __d0 AS __d0', __v0  [key: __d0']
--             GroupBy __d0; __v0 := count(*)  [key: __d0]
--               Project __d0  [key: none]
--                 Join on e > __d0  [key: none]
--                   Distinct  [key: __d0]
--                     Project c AS __d0  [key: none]
--                       ℜ(A) over source TA  [key: none]
--                   ℜ(B) over source TB  [key: none]

-- title: IN as a value
SELECT a, a IN (SELECT e FROM B) AS x FROM A;

-- Project a, CASE WHEN __t IS NOT NULL THEN TRUE WHEN "__t'" IS NOT NULL THEN NULL ELSE FALSE END AS x  [key: none]
--   LeftJoin  [key: none]
--     Project a, b, c, d, TS, e, __t  [key: none]
--       LeftJoin on __k0 = e  [key: none]
--         Project a, b, c, d, TS, a AS __k0  [key: none]
--           ℜ(A) over source TA  [key: none]
--         Project e, TRUE AS __t  [key: e]
--           Distinct  [key: e]
--             Project e  [key: none]
--               Project e  [key: none]
--                 ℜ(B) over source TB  [key: none]
--     Distinct  [key: __t']
--       Project TRUE AS __t'  [key: none]
--         Filter "e'" IS NULL  [key: none]
--           Project e AS e'  [key: none]
--             Project e  [key: none]
--               ℜ(B) over source TB  [key: none]
