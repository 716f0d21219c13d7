"""Control tables: the operators, queues and synopses that run, as entities with attributes."""
