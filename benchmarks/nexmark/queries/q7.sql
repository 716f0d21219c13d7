-- The highest bids of each ten seconds. BETWEEN holds both ends, so a bid at a boundary may stand twice.
SELECT B.auction, B.price, B.bidder, B."dateTime", B.extra
FROM Bid B JOIN (
    SELECT MAX(price) AS highest, window_start, window_end
    FROM TABLE(TUMBLE(TABLE Bid, DESCRIPTOR("dateTime"), INTERVAL '10' SECOND))
    GROUP BY window_start, window_end
) H ON B.price = H.highest
WHERE B."dateTime" BETWEEN H.window_start AND H.window_end
