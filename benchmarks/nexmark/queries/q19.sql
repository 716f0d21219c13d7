-- The ten highest bids of each auction with their places. Equal prices go by time, bidder and extra.
SELECT T.auction, T.bidder, T.price, T.channel, T.url, T."dateTime", T.extra, T.place
FROM (
    SELECT auction, bidder, price, channel, url, "dateTime", extra,
        ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC, "dateTime", bidder, extra) AS place
    FROM Bid
) T
WHERE T.place <= 10
