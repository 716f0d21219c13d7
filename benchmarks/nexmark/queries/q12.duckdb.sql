SELECT bidder, COUNT(*) AS bid_count, time_bucket(INTERVAL '10 seconds', "dateTime") AS starttime,
    time_bucket(INTERVAL '10 seconds', "dateTime") + INTERVAL '10 seconds' AS endtime
FROM Bid GROUP BY ALL
