"""Detect changes in every stream of a folder of JSON Lines or of a Kafka topic, with one configuration.

    python examples/spark_detect.py --config detector.toml --input readings/ --out steps/ --checkpoint state/
    spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:VERSION examples/spark_detect.py \\
        --config detector.toml --kafka broker:9092 --topic readings --out steps/ --checkpoint state/

VERSION is the version of your Spark, such as 4.1.0, and 2.13 that of its Scala: `spark-submit --version` prints both.

A message is one JSON object: {"stream": "press 7", "at": 12, "imu": 0.3, "gps": 0.1}, with a reading for each column
of the configuration. The tests run the file source; the Kafka source is not tested.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from mfbocd.adapters.spark import GroupBudget, detect_stream, problems, session, steps
from mfbocd.io.config import Config

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", required=True, help="configuration file")
    parser.add_argument("--out", required=True, help="output folder for steps and problems, as Parquet")
    parser.add_argument("--checkpoint", required=True, help="folder for Spark's state; a query resumes from it")
    parser.add_argument("--input", help="folder of JSON Lines files")
    parser.add_argument("--kafka", help="bootstrap servers, instead of --input")
    parser.add_argument("--topic", default="readings", help="Kafka topic")
    parser.add_argument("--group", type=int, metavar="STREAMS", help="one budget for this number of streams together")
    parser.add_argument(
        "--max-ahead", type=int, help="report rows that are further ahead of the last time of their stream"
    )
    parser.add_argument("--files-per-batch", type=int, default=100, help="files per micro-batch of --input")
    parser.add_argument(
        "--forever", action="store_true", help="wait for more rows instead of stopping after the last one"
    )
    parser.add_argument("--master", help="Spark master, such as local[2]; by default that of spark-submit")
    parser.add_argument(
        "--partitions",
        type=int,
        help="shuffle partitions, fixed by the first run; by default those of mfbocd.adapters.spark.session",
    )
    return parser.parse_args()


def source(spark: SparkSession, given: argparse.Namespace, config: Config) -> DataFrame:
    """Return the messages, one row each; `_corrupt_record` makes Spark report invalid JSON as problems."""
    columns = [f.column for f in config.fidelities] or ["full"]
    numbers = (f"`{name}` DOUBLE" for name in columns)
    schema = ", ".join(["stream STRING", "at LONG", *numbers, "_corrupt_record STRING"])
    if given.kafka is None:
        files = spark.readStream.schema(schema).option("maxFilesPerTrigger", given.files_per_batch)
        return files.json(given.input)
    from pyspark.sql import functions as sql

    messages = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", given.kafka)
        .option("subscribe", given.topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    parsed = sql.from_json(sql.col("value").cast("string"), schema, {"columnNameOfCorruptRecord": "_corrupt_record"})
    return messages.select(parsed.alias("message")).select("message.*")


def main() -> None:
    """Run until the source is exhausted, or until stopped."""
    given = arguments()
    if (given.input is None) == (given.kafka is None):
        raise SystemExit("pass either --input or --kafka")
    config = Config.load(given.config)
    spark = session("mfbocd", given.master, partitions=given.partitions)
    group = GroupBudget(f"{given.checkpoint}/prices", config, given.group) if given.group else None
    df = source(spark, given, config)
    answer = detect_stream(df, "stream", "at", None, config, group=group, max_ahead=given.max_ahead)

    def write(frame: DataFrame, batch: int) -> None:
        # One folder per micro-batch, overwritten if the micro-batch is repeated after a crash.
        steps(frame).write.mode("overwrite").parquet(f"{given.out}/steps/batch={batch}")
        problems(frame).write.mode("overwrite").parquet(f"{given.out}/problems/batch={batch}")

    def write_persisted(frame: DataFrame, batch: int) -> None:
        frame = frame.persist()  # written twice, computed once
        try:
            write(frame, batch)
        finally:
            frame.unpersist()

    writer = answer.writeStream.foreachBatch(group.each(write) if group else write_persisted)
    writer = writer.option("checkpointLocation", given.checkpoint)
    if not given.forever:
        writer = writer.trigger(availableNow=True)
    writer.start().awaitTermination()


if __name__ == "__main__":
    main()
