"""Binds what is peculiar to streams: Istream and Dstream, the clock, synchronisation, order of arrival."""
