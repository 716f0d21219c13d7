-- The bids on every 123rd auction.
SELECT auction, price FROM Bid WHERE MOD(auction, 123) = 0
