"""What a store of state does (`store`), and the documents of a cluster in any store (`cluster`)."""
