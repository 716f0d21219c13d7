-- Bids with the day and the minute by which a log would be cut into files.
SELECT auction, bidder, price, "dateTime", extra,
    STRFTIME("dateTime", '%Y-%m-%d') AS bid_day, STRFTIME("dateTime", '%H:%M') AS bid_minute
FROM Bid
