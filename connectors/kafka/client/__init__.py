"""Connections, settings, topics and transactions of Kafka: what every reader and writer needs."""
