-- Bids with a label from a side input of ten thousand rows.
SELECT B.auction, B.bidder, B.price, B."dateTime", S.label
FROM Bid B JOIN Side S ON MOD(B.auction, 10000) = S.code
