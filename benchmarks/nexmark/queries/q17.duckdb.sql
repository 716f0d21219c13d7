-- Bids and prices of each auction and day.
SELECT auction, STRFTIME("dateTime", '%Y-%m-%d') AS bid_day,
    COUNT(*) AS total_bids,
    COUNT(*) FILTER (WHERE price < 10000) AS rank1_bids,
    COUNT(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bids,
    COUNT(*) FILTER (WHERE price >= 1000000) AS rank3_bids,
    MIN(price) AS min_price, MAX(price) AS max_price, AVG(price) AS avg_price, SUM(price)::BIGINT AS sum_price
FROM Bid
GROUP BY auction, STRFTIME("dateTime", '%Y-%m-%d')
