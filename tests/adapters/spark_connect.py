"""A query with a group's budget on a local server of Spark Connect; prints its rows and prices as JSON.

A process of its own, because a process has either ordinary sessions or those of Connect.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from mfbocd import Detector
from mfbocd.adapters import spark as on_spark
from mfbocd.adapters.spark import java

from .spark_streams import CONFIG, INTERPRETED, JVM_OPTIONS, SCHEMA, messages, streams, write

TABLES = streams(4, 12, seed=8)
GROUP = dataclasses.replace(CONFIG, policy={"kind": "budget", "per_tick": 4 * 8.0})


def main(folder: Path) -> None:
    """Run three micro-batches of four ticks."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_SUBMIT_OPTS"] = JVM_OPTIONS
    builder = SparkSession.builder.remote("local[2]").config(java.PROVIDER, java.ROCKSDB)
    for key, value in {"spark.sql.shuffle.partitions": "1", "spark.ui.enabled": "false", **INTERPRETED}.items():
        builder = builder.config(key, value)
    spark: Any = builder.getOrCreate()
    for i in range(3):
        write(folder / "in", i, messages(TABLES, range(4 * i, 4 * i + 4)))
    group = on_spark.GroupBudget(folder / "prices", GROUP, streams=4)
    df = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder / "in"))
    answer = on_spark.detect_stream(df, "stream", "at", None, GROUP, group=group)
    out, checkpoint = str(folder / "out"), str(folder / "checkpoint")

    def keep(frame: Any, batch: int) -> None:  # runs on the server
        frame.write.mode("overwrite").parquet(f"{out}/batch={batch}")

    query = answer.writeStream.foreachBatch(group.each(keep)).trigger(availableNow=True)
    query.option("checkpointLocation", checkpoint).start().awaitTermination()
    found = {
        "rows": [row.asDict() for row in spark.read.parquet(out).collect()],
        "prices": [group.effective_price(batch) for batch in range(4)],
        "ticks": [
            Detector.from_bytes(bytes(row["state"])).ticks
            for row in on_spark.states(checkpoint, "stream", spark).collect()
        ],
    }
    (folder / "found.json").write_text(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
