-- Declared before each case in this folder: T has a key and E is append-only. The tests draw the records of both.
REGISTER SOURCE Keyed (id INT NOT NULL, a BIGINT, b VARCHAR) FROM t PARTITIONS 1;
REGISTER SOURCE Events (id INT NOT NULL, a BIGINT, b VARCHAR) FROM e PARTITIONS 1;
CREATE STREAM T OVER Keyed KEY id;
CREATE STREAM E OVER Events KEY NULL;

-- points of synchronisation
CREATE STREAMED VIEW Every2 AS SELECT Timepoint FROM R(clockStr) WHERE mod(Timepoint, 2) = 0;
CREATE STREAMED VIEW Every4 AS SELECT Timepoint FROM R(clockStr) WHERE mod(Timepoint, 4) = 0;
CREATE STREAMED VIEW Every4From1 AS SELECT Timepoint FROM R(clockStr) WHERE mod(Timepoint, 4) = 1;
CREATE STREAMED VIEW Points AS SELECT TS AS at FROM E WHERE a > 0;

CREATE STREAMED VIEW Pairs AS
    SELECT T.*, T.TS AS since, R.id AS r_id, R.a AS r_a, R.b AS r_b, R.TS AS r_since FROM T JOIN T AS R ON T.id = R.id;
CREATE STREAMED VIEW Sums AS SELECT b, SUM(a) AS s FROM T GROUP BY b HAVING COUNT(*) > 0;
CREATE STREAMED VIEW DistinctA AS SELECT DISTINCT a FROM T;
CREATE STREAMED VIEW TEvery2 AS SELECT *, TS AS since FROM R[Every2](T);
CREATE STREAMED VIEW TPoints AS SELECT *, TS AS since FROM R[Points](T);
