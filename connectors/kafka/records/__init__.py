"""Reads and writes records of topics, as columns if the native part is available, otherwise as messages."""
