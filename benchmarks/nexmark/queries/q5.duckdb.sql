WITH counts AS (
    SELECT auction, window_start, COUNT(*) AS num
    FROM (
        SELECT auction, time_bucket(INTERVAL '2 seconds', "dateTime") - to_seconds(2 * k) AS window_start
        FROM Bid CROSS JOIN range(5) AS windows(k)
    )
    GROUP BY auction, window_start
)
SELECT auction, num FROM counts QUALIFY RANK() OVER (PARTITION BY window_start ORDER BY num DESC) = 1
