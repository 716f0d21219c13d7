-- Without our tie-break, so that Flink may plan its deduplication; what ties is left out of the comparison.
SELECT L.auction, L.bidder, L.price, L.channel, L.url, L."dateTime", L.extra
FROM (
    SELECT auction, bidder, price, channel, url, "dateTime", extra,
        ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY "dateTime" DESC) AS place
    FROM Bid
) L
WHERE L.place <= 1
