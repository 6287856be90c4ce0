"""A Spark session that can keep detectors, and the Java version it needs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

LEAST = 17  # required by pyspark 4
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_HINT = "install one (Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME"


def check_java() -> int:
    """Return the major version of the Java runtime that Spark will use.

    Returns
    -------
    int
        The version.

    Raises
    ------
    RuntimeError
        If there is no Java 17 or later; the message says what to install.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java") if not home else shutil.which(str(Path(home) / "bin" / "java"))
    if found is None:
        where = f"JAVA_HOME is {home!r}, where there is no bin/java" if home else "there is no java on the PATH"
        raise RuntimeError(f"Spark needs a Java runtime, {LEAST} or later, but {where}: {_HINT}")
    output = subprocess.run([found, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', output)
    if version is None or int(version[1]) < LEAST:
        which = f"is Java {version[1]}" if version else f"does not print its version: {output.strip()!r}"
        raise RuntimeError(f"Spark needs a Java runtime, {LEAST} or later, but {found} {which}: {_HINT}")
    return int(version[1])


def session(name: str = "mfbocd", master: str | None = None, **settings: Any) -> Any:
    """Return a `SparkSession` whose streaming state is kept in RocksDB, as `detect_stream` requires.

    Parameters
    ----------
    name : str
        Name of the application; "mfbocd" by default.
    master : str or None
        Spark's master, such as "local[2]"; left to spark-submit by default.
    **settings : Any
        Spark settings, with ``__`` for a dot: ``spark__ui__enabled=False``.

    Returns
    -------
    pyspark.sql.SparkSession
        The session.

    Raises
    ------
    RuntimeError
        If there is no suitable Java runtime.
    """
    from pyspark.sql import SparkSession

    check_java()
    builder = SparkSession.builder.appName(name).config(PROVIDER, ROCKSDB)
    if master is not None:
        builder = builder.master(master)
        if master.startswith("local"):
            # Workers on this machine must find mfbocd where this process does; Spark would take any python3.
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for key, value in settings.items():
        text = str(value).lower() if isinstance(value, bool) else value
        builder = builder.config(key.replace("__", "."), text)
    return builder.getOrCreate()
