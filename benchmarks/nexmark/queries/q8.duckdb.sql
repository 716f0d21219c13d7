SELECT DISTINCT P.id, P.name, time_bucket(INTERVAL '10 seconds', P."dateTime") AS starttime
FROM Person P JOIN Auction A
    ON P.id = A.seller
    AND time_bucket(INTERVAL '10 seconds', P."dateTime") = time_bucket(INTERVAL '10 seconds', A."dateTime")
