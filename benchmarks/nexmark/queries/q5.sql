-- The auctions with the most bids of each sliding window. All that tie for the first place are in the result.
SELECT C.auction, C.num
FROM (
    SELECT auction, COUNT(*) AS num, window_start, window_end
    FROM TABLE(HOP(TABLE Bid, DESCRIPTOR("dateTime"), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
    GROUP BY auction, window_start, window_end
) C JOIN (
    SELECT MAX(N.num) AS most, N.window_start, N.window_end
    FROM (
        SELECT auction, COUNT(*) AS num, window_start, window_end
        FROM TABLE(HOP(TABLE Bid, DESCRIPTOR("dateTime"), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
        GROUP BY auction, window_start, window_end
    ) N
    GROUP BY N.window_start, N.window_end
) M ON C.window_start = M.window_start AND C.window_end = M.window_end AND C.num >= M.most
