"""The requests that simulated brokers answer."""

from __future__ import annotations

from connectors.simulation.kafka import serve_fetch, serve_metadata, serve_produce, serve_topics, serve_transactions
from connectors.simulation.kafka.broker import Handler

#: The handlers by the kind of the request.
HANDLERS: dict[str, Handler] = {
    "ApiVersions": serve_metadata.api_versions,
    "Metadata": serve_metadata.metadata,
    "FindCoordinator": serve_metadata.find_coordinator,
    "DescribeCluster": serve_metadata.describe_cluster,
    "Produce": serve_produce.produce,
    "Fetch": serve_fetch.fetch,
    "ListOffsets": serve_fetch.list_offsets,
    "InitProducerId": serve_transactions.init_producer_id,
    "AddPartitionsToTxn": serve_transactions.add_partitions,
    "EndTxn": serve_transactions.end,
    "CreateTopics": serve_topics.create_topics,
    "DeleteTopics": serve_topics.delete_topics,
    "CreatePartitions": serve_topics.create_partitions,
    "DescribeConfigs": serve_topics.describe_configs,
    "IncrementalAlterConfigs": serve_topics.alter_configs,
    "DeleteRecords": serve_topics.delete_records,
}
