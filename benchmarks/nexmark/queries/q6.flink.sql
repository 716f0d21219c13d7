-- Flink's AVG of a BIGINT is a BIGINT.
SELECT W.id, W.seller,
    AVG(CAST(W.final AS DOUBLE)) OVER (
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
