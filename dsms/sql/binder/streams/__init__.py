"""Binds what only streams have: Istream and Dstream, the clock, synchronisation, order of arrival."""
