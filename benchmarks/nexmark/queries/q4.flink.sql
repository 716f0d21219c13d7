-- Flink's AVG of a BIGINT is a BIGINT.
SELECT W.category, AVG(CAST(W.final AS DOUBLE)) AS price
FROM (
    SELECT A.id, A.category, MAX(B.price) AS final
    FROM Auction A JOIN Bid B ON A.id = B.auction
    WHERE B."dateTime" BETWEEN A."dateTime" AND A.expires
    GROUP BY A.id, A.category
) W
GROUP BY W.category
