"""A simulated Kafka cluster: brokers that answer requests of Kafka's protocol, the network to them, and clients.

`SimulatedCluster` (cluster.py) is the cluster, and `SimulatedKafka` (settings.py) are the settings with which a
simulated process reaches it. Readers and writers of `connectors.kafka` run over it unchanged.
"""
