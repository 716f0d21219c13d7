"""NEXMark: an auction site's persons, auctions and bids, and twenty-three questions about them."""
