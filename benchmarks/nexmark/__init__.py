"""NEXMark: the persons, auctions and bids of an auction site, and twenty-three queries over them."""
