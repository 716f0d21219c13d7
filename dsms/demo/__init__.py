"""`make demo`: the temperature-monitoring example of the SyncSQL paper on real Kafka, Redis and Spark."""
