WITH starts AS (
    SELECT bidder, "dateTime",
        COALESCE("dateTime" - LAG("dateTime") OVER one > INTERVAL '10 seconds', TRUE)::INT AS opens
    FROM Bid WINDOW one AS (PARTITION BY bidder ORDER BY "dateTime")
), sessions AS (
    SELECT bidder, "dateTime",
        SUM(opens) OVER (PARTITION BY bidder ORDER BY "dateTime" RANGE UNBOUNDED PRECEDING) AS number
    FROM starts
)
SELECT bidder, COUNT(*) AS bid_count, MIN("dateTime") AS starttime,
    MAX("dateTime") + INTERVAL '10 seconds' AS endtime
FROM sessions GROUP BY bidder, number
