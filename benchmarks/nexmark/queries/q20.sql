-- Bids with their auctions of category 10.
SELECT B.auction, B.bidder, B.price, B.channel, B.url, B."dateTime", B.extra, A."itemName", A.description,
    A."initialBid", A.reserve, A."dateTime" AS "auctionTime", A.expires, A.seller, A.category, A.extra AS "auctionExtra"
FROM Bid B JOIN Auction A ON B.auction = A.id
WHERE A.category = 10
