"""What Spark needs: errors before anything starts."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from mfbocd.adapters.spark import java
from mfbocd.adapters.spark.group import price_of
from mfbocd.adapters.spark.worker import Job, Worker

from .spark_streams import CONFIG

pytestmark = pytest.mark.slow


def test_a_missing_java_has_a_clear_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(RuntimeError, match=r"Java runtime, 17 or later, but JAVA_HOME .* apt-get install openjdk-17"):
        java.check_java()
    old = tmp_path / "bin" / "java"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    old.chmod(0o755)
    with pytest.raises(RuntimeError, match="java is Java 11: install one"):
        java.check_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match="there is no java on the PATH"):
        java.check_java()


def test_another_python_for_the_workers_has_a_clear_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    java.check_python()
    monkeypatch.setenv("PYSPARK_PYTHON", str(tmp_path / "python9"))
    with pytest.raises(
        RuntimeError, match=r"PYSPARK_PYTHON is '.*python9', which is no program: unset it, or set it"
    ):
        java.check_python()
    other = tmp_path / "python9"
    other.write_text("#!/bin/sh\necho 2.7\n")
    other.chmod(0o755)
    mine = f"{sys.version_info[0]}.{sys.version_info[1]}"
    message = rf"python9', which is Python 2.7, but this is Python {mine}: Spark's workers need the same version"
    with pytest.raises(RuntimeError, match=message):
        java.session("never", "local[2]")
    other.write_text(f"#!/bin/sh\necho {mine}\nexec {sys.executable} -c 'import nothing_of_this_name'\n")
    message = r"python9', which cannot import .*ModuleNotFoundError: No module named 'nothing_of_this_name'\): unset"
    with pytest.raises(RuntimeError, match=message):
        java.session("never", "local[2]")
    other.write_text(f"#!/bin/sh\necho {mine}\n")
    java.check_python()


@pytest.mark.parametrize(
    ("master", "count"), [("local", 1), ("local[3]", 3), ("local[2,4]", 2), ("local[*]", os.cpu_count())]
)
def test_a_local_session_has_one_partition_per_core(master: str, count: int) -> None:
    assert java._threads(master) == count


@pytest.mark.parametrize("partitions", [0, -1, 1.5])
def test_a_number_of_partitions_that_is_none_is_refused(partitions: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="partitions"):
        java.session("never", "local[2]", partitions=partitions)


def test_an_old_pandas_has_a_clear_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pandas.__version__", "1.5.3")
    with pytest.raises(
        ImportError, match=r"pandas 2\.2 or later, but this is 1\.5\.3: pip install 'mfbocd\[spark\]'"
    ):
        java.check_pandas()


def test_another_version_of_mfbocd_in_a_worker_has_a_clear_message() -> None:
    job = Job("token", CONFIG.to_dict(), ("imu", "gps"), {}, version="0.0.1")
    with pytest.raises(RuntimeError, match=r"this worker has mfbocd .* but the driver has 0\.0\.1: install the same"):
        Worker(job)


def test_a_price_must_come_with_the_task() -> None:
    with pytest.raises(ValueError, match=r"has no price: pass GroupBudget.each\(write\) to foreachBatch"):
        price_of("spark.mfbocd.price.0")
