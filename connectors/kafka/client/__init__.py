"""Connections, settings, topics and transactions of Kafka, which all readers and writers use."""
