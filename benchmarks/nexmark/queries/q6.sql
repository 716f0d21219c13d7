-- For each auction with bids: the mean winning price of it and the ten before it of the same seller, so far.
-- Equal bids of one instant win by the smaller bidder; auctions of one instant go by their number.
SELECT W.id, W.seller,
    AVG(W.final) OVER (
        PARTITION BY W.seller ORDER BY W."dateTime", W.id ROWS BETWEEN 10 PRECEDING AND CURRENT ROW
    ) AS price
FROM (
    SELECT T.id, T.seller, T.final, T."dateTime"
    FROM (
        SELECT A.id, A.seller, B.price AS final, B."dateTime",
            ROW_NUMBER() OVER (PARTITION BY A.id ORDER BY B.price DESC, B."dateTime", B.bidder) AS place
        FROM Auction A JOIN Bid B ON A.id = B.auction
        WHERE B."dateTime" BETWEEN A."dateTime" AND A.expires
    ) T
    WHERE T.place <= 1
) W
