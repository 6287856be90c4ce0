"""Sweeps on a Dask cluster: the workers compute the same parts, which are saved on this machine."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from paper.framework import ClusterError, cluster, finish

from .helpers import ROOT
from .test_command import paper

pytestmark = pytest.mark.slow

distributed = pytest.importorskip("distributed")


def pid_and_square(x: float) -> list[float]:
    return [os.getpid(), x * x]


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    """The address of a cluster with two workers, each a process of one thread."""
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
    ) as cluster:
        yield cluster.scheduler_address


def test_parts_are_made_by_the_workers_and_kept_here(scheduler: str, tmp_path: Path) -> None:
    work = {f"part-{i}": (pid_and_square, (float(i),)) for i in range(8)}
    with cluster(scheduler):
        found = finish(work, tmp_path, {"seed": 1}, progress=False)
    assert [found[f"part-{i}"][1] for i in range(8)] == [float(i * i) for i in range(8)]
    with distributed.Client(scheduler) as client:
        workers = set(client.run(os.getpid).values())
    assert {made_by for made_by, _ in found.values()} <= workers
    assert len(list(tmp_path.glob("*.json"))) == 8
    again = finish(work, tmp_path, {"seed": 1}, jobs=1, progress=False)
    assert again == found  # with the workers' process ids: nothing was computed again


def test_the_same_command_gives_the_same_files_on_a_cluster(scheduler: str, tmp_path: Path) -> None:
    def study(out: str, *more: str) -> Path:
        done = paper("mi-illustration", "--quick", "--trials", "2", "--out", out, *more, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return tmp_path / out / "mi-illustration"

    here = study("here", "--jobs", "1")
    there = study("there", "--scheduler", scheduler)
    assert (there / "mi-illustration.csv").read_bytes() == (here / "mi-illustration.csv").read_bytes()
    made = sorted(p.name for p in (here / ".parts").iterdir())
    assert len(made) == 3
    assert sorted(p.name for p in (there / ".parts").iterdir()) == made


ELSEWHERE = """
from distributed import LocalCluster
if __name__ == "__main__":
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None, silence_logs=50) as cluster:
        print(cluster.scheduler_address, flush=True)
        input()
"""


def test_workers_with_another_mfbocd_are_refused(tmp_path: Path) -> None:
    for source in (ROOT / "src" / "mfbocd", ROOT / "paper"):
        shutil.copytree(source, tmp_path / source.name, ignore=shutil.ignore_patterns("__pycache__"))
    with (tmp_path / "mfbocd" / "__init__.py").open("a") as file:
        file.write("# one more line\n")
    (tmp_path / "cluster.py").write_text(ELSEWHERE)
    with subprocess.Popen(
        [sys.executable, "cluster.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        with (
            pytest.raises(ClusterError, match=f"scheduler {address}: worker .* has another mfbocd than this machine"),
            cluster(address),
        ):
            pass
        process.communicate("\n")


def test_a_scheduler_that_is_not_there_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: no other server can use the port
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        import dask

        with (
            dask.config.set({"distributed.comm.timeouts.connect": "300ms"}),
            pytest.raises(ClusterError, match=f"scheduler {address} cannot be reached"),
            cluster(address),
        ):
            pass
