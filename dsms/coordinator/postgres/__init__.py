"""The wire protocol of PostgreSQL, version 3, so that its clients can connect to the coordinator."""
