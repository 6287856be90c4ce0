"""A Spark session that can keep detectors, and the Java version it needs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from ...inputs.arguments import whole

LEAST = 17  # required by pyspark 4
PANDAS = (2, 2)  # likewise
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
NO_DATA = "spark.sql.streaming.noDataMicroBatches.enabled"
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


def check_pandas() -> None:
    """Raise an error if pandas is too old for Spark, which would say so only once a query runs.

    Raises
    ------
    ImportError
        If it is too old; the message says what to install.
    """
    import pandas

    if tuple(int(part) for part in pandas.__version__.split(".")[:2]) < PANDAS:
        least = ".".join(map(str, PANDAS))
        raise ImportError(
            f"mfbocd.adapters.spark needs pandas {least} or later, but this is {pandas.__version__}: "
            "pip install 'mfbocd[spark]'"
        )


def check_python() -> None:
    """Check the interpreter that workers on this machine will use, that of PYSPARK_PYTHON.

    Raises
    ------
    RuntimeError
        If it does not exist, is another version of Python than this one, which Spark does not support, or cannot
        import mfbocd, pandas and pyarrow.
    """
    python = os.environ.get("PYSPARK_PYTHON", sys.executable)
    if python == sys.executable:
        return
    mine = f"{sys.version_info[0]}.{sys.version_info[1]}"
    hint = f"unset it, or set it to {sys.executable}"
    if shutil.which(python) is None:
        raise RuntimeError(f"PYSPARK_PYTHON is {python!r}, which is no program: {hint}")
    program = "import sys; print('%d.%d' % sys.version_info[:2]); import pyarrow, pandas, mfbocd"
    command = [python, "-c", program]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    if found.stdout.strip() != mine:
        which = f"Python {found.stdout.strip()}" if found.stdout.strip() else "no Python"
        raise RuntimeError(
            f"PYSPARK_PYTHON is {python!r}, which is {which}, but this is Python {mine}: Spark's workers need the "
            f"same version. {hint.capitalize()}"
        )
    if found.returncode:
        error = found.stderr.strip().rpartition("\n")[2]
        raise RuntimeError(
            f"PYSPARK_PYTHON is {python!r}, which cannot import what Spark's workers need ({error}): {hint}"
        )


def session(
    name: str = "mfbocd", master: str | None = None, *, partitions: int | None = None, **settings: Any
) -> Any:
    """Return a `SparkSession` whose streaming state is kept in RocksDB, as `detect_stream` requires.

    Parameters
    ----------
    name : str
        Name of the application; "mfbocd" by default.
    master : str or None
        Spark's master, such as "local[2]"; left to spark-submit by default.
    partitions : int or None
        Number of shuffle partitions, each of which is one task and one state store per micro-batch. By default the
        number of cores with a local master; otherwise Spark's setting, which is 200 where nobody has changed it. A
        checkpoint keeps the number of its first run.
    **settings : Any
        Spark settings, with ``__`` for a dot: ``spark__ui__enabled=False``.

    Returns
    -------
    pyspark.sql.SparkSession
        The session.

    Raises
    ------
    RuntimeError
        If there is no suitable Java runtime, or if the workers of a local master would use another Python.
    """
    from pyspark.sql import SparkSession

    check_java()
    builder = SparkSession.builder.appName(name).config(PROVIDER, ROCKSDB).config(NO_DATA, "false")
    if master is not None:
        builder = builder.master(master)
        if master.startswith("local"):
            # Workers on this machine must find mfbocd where this process does; Spark would take any python3.
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
            check_python()
            partitions = _threads(master) if partitions is None else partitions
    if partitions is not None:
        builder = builder.config("spark.sql.shuffle.partitions", whole("", "partitions", partitions, 1))
    for key, value in settings.items():
        text = str(value).lower() if isinstance(value, bool) else value
        builder = builder.config(key.replace("__", "."), text)
    return builder.getOrCreate()


def _threads(master: str) -> int:
    """Return the number of tasks that a local master runs at a time: that of ``local[n]`` or ``local[n,retries]``."""
    found = re.match(r"local\[(\d+|\*)", master)
    if found is None:
        return 1
    return os.cpu_count() or 1 if found[1] == "*" else int(found[1])
