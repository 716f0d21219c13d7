WITH windows AS (
    SELECT time_bucket(INTERVAL '10 seconds', "dateTime") AS window_start, MAX(price) AS highest FROM Bid GROUP BY ALL
)
SELECT B.auction, B.price, B.bidder, B."dateTime", B.extra
FROM Bid B JOIN windows H ON B.price = H.highest
WHERE B."dateTime" BETWEEN H.window_start AND H.window_start + INTERVAL '10 seconds'
