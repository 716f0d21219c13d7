-- Bids of a middle price, with the time of day and the number of letters c in extra.
SELECT auction, bidder, 0.908 * price AS price,
    CASE
        WHEN EXTRACT(HOUR FROM "dateTime") BETWEEN 8 AND 18 THEN 'dayTime'
        WHEN EXTRACT(HOUR FROM "dateTime") <= 6 OR EXTRACT(HOUR FROM "dateTime") >= 20 THEN 'nightTime'
        ELSE 'otherTime'
    END AS bid_time_type,
    "dateTime", extra, CHAR_LENGTH(extra) - CHAR_LENGTH(REPLACE(extra, 'c', '')) AS c_counts
FROM Bid
WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000
