-- The bids of each bidder in ten seconds. NEXMark counts by the clock of the machine that computes; here a bid arrives
-- at the instant of its record, as the log says it, so that the answer can be repeated.
SELECT bidder, COUNT(*) AS bid_count, window_start AS starttime, window_end AS endtime
FROM TABLE(TUMBLE(TABLE Bid, DESCRIPTOR("dateTime"), INTERVAL '10' SECOND))
GROUP BY bidder, window_start, window_end
