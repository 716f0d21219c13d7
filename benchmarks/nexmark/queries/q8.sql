-- New persons who opened an auction within the same ten seconds.
SELECT P.id, P.name, P.window_start AS starttime
FROM (
    SELECT id, name, window_start, window_end
    FROM TABLE(TUMBLE(TABLE Person, DESCRIPTOR("dateTime"), INTERVAL '10' SECOND))
    GROUP BY id, name, window_start, window_end
) P JOIN (
    SELECT seller, window_start, window_end
    FROM TABLE(TUMBLE(TABLE Auction, DESCRIPTOR("dateTime"), INTERVAL '10' SECOND))
    GROUP BY seller, window_start, window_end
) A ON P.id = A.seller AND P.window_start = A.window_start AND P.window_end = A.window_end
