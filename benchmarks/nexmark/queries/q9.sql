-- The winning bid of each auction, so far. Equal prices go to the earlier bid, then to the smaller bidder and extra.
SELECT W.id, W."itemName", W.description, W."initialBid", W.reserve, W."dateTime", W.expires, W.seller, W.category,
    W.extra, W.auction, W.bidder, W.price, W."bidTime", W."bidExtra"
FROM (
    SELECT A.id, A."itemName", A.description, A."initialBid", A.reserve, A."dateTime", A.expires, A.seller, A.category,
        A.extra, B.auction, B.bidder, B.price, B."dateTime" AS "bidTime", B.extra AS "bidExtra",
        ROW_NUMBER() OVER (PARTITION BY A.id ORDER BY B.price DESC, B."dateTime", B.bidder, B.extra) AS place
    FROM Auction A JOIN Bid B ON A.id = B.auction
    WHERE B."dateTime" BETWEEN A."dateTime" AND A.expires
) W
WHERE W.place <= 1
