-- The last bid of each bidder on each auction; of one instant the highest, then the one with the greatest extra.
SELECT L.auction, L.bidder, L.price, L.channel, L.url, L."dateTime", L.extra
FROM (
    SELECT auction, bidder, price, channel, url, "dateTime", extra,
        ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY "dateTime" DESC, price DESC, extra DESC) AS place
    FROM Bid
) L
WHERE L.place <= 1
