"""A query in plain Spark Structured Streaming over bids in JSON, from one Kafka topic into another.

Reads lines `{"broker", "topic", "out", "columns", "tenth"}` and answers each with the seconds that the query took.
"""

import json
import os
import sys
import tempfile
import time

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

SCHEMA = "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, dateTime BIGINT, extra STRING"


def run(spark: SparkSession, order: dict) -> float:
    """Runs one query to the end of its topic."""
    started = time.monotonic()
    broker = ("kafka.bootstrap.servers", order["broker"])
    read = spark.readStream.format("kafka").option(*broker).option("subscribe", order["topic"])
    lines = read.option("startingOffsets", "earliest").load()
    bids = lines.select(f.from_json(f.col("value").cast("string"), SCHEMA).alias("bid")).select("bid.*")
    bids = bids.filter("auction % 10 = 0") if order["tenth"] else bids
    results = bids.select(f.to_json(f.struct(*order["columns"])).alias("value"))
    with tempfile.TemporaryDirectory() as checkpoint:
        write = results.writeStream.format("kafka").option(*broker).option("topic", order["out"])
        write = write.option("kafka.compression.type", "lz4").option("checkpointLocation", checkpoint)
        write.trigger(availableNow=True).start().awaitTermination()
    return time.monotonic() - started


def main() -> None:
    """Answers until the input ends. Answers go to the original standard output, everything else to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    builder = SparkSession.builder.master("local[2]").config("spark.jars", sys.argv[1])
    builder = builder.config("spark.sql.shuffle.partitions", 2).config("spark.ui.enabled", "false")
    spark = builder.config("spark.driver.memory", "4g").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    for line in sys.stdin:
        print(f"@{run(spark, json.loads(line))}", file=answers, flush=True)
    spark.stop()


main()
