"""Sweeps on a Dask cluster: the same parts as on this machine, kept here, made there."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from paper.study.parts import ClusterError, finish, spread

from ..parts import PATIENCE

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
    with spread("dask", scheduler):
        found = finish(work, tmp_path, {"seed": 1}, progress=False)
    assert [found[f"part-{i}"][1] for i in range(8)] == [float(i * i) for i in range(8)]
    with distributed.Client(scheduler) as client:
        workers = set(client.run(os.getpid).values())
    assert {made_by for made_by, _ in found.values()} <= workers
    assert len(list(tmp_path.glob("*.json"))) == 8
    again = finish(work, tmp_path, {"seed": 1}, jobs=1, progress=False)
    assert again == found  # with the workers' process ids: nothing was made anew


def test_the_same_command_gives_the_same_files_on_a_cluster(scheduler: str, tmp_path: Path) -> None:
    def study(out: str, *more: str) -> None:
        command = [sys.executable, "-m", "mfbocd.cli", "study", "frontier", "--quick", "--streams", "2"]
        command += ["--family", "bernoulli-flip", "--out", out, *more]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == 0, done.stderr

    study("here", "--jobs", "1")
    study("there", "--backend", "dask", "--scheduler", scheduler)
    assert (tmp_path / "there" / "frontier.csv").read_bytes() == (tmp_path / "here" / "frontier.csv").read_bytes()
    made = sorted(p.name for p in (tmp_path / "here" / "groups").iterdir())
    assert sorted(p.name for p in (tmp_path / "there" / "groups").iterdir()) == made


def test_reproduce_runs_on_a_cluster(scheduler: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mfbocd.cli", "reproduce", "ablation-bernoulli", "--quick", "--trials", "2"]
    command += ["--out", "paper", "--backend", "dask", "--scheduler", scheduler]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    written = (tmp_path / "paper" / "ablation-bernoulli" / "ablation-bernoulli.csv").read_text().splitlines()
    assert len(written) > 10


ELSEWHERE = """
from distributed import LocalCluster
if __name__ == "__main__":
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None, silence_logs=50) as cluster:
        print(cluster.scheduler_address, flush=True)
        input()
"""


def test_workers_with_another_mfbocd_are_refused(tmp_path: Path) -> None:
    source = Path(__file__).resolve().parents[2] / "src" / "mfbocd"
    shutil.copytree(source, tmp_path / "mfbocd", ignore=shutil.ignore_patterns("__pycache__"))
    with (tmp_path / "mfbocd" / "demo.py").open("a") as file:
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
            spread("dask", address),
        ):
            pass
        process.communicate("\n")


@pytest.mark.parametrize("more", [["--backend", "dask"], ["--scheduler", "tcp://127.0.0.1:1"]])
@pytest.mark.parametrize("command", [["study", "frontier"], ["reproduce", "costs"]])
def test_backend_and_scheduler_go_together(tmp_path: Path, command: list[str], more: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mfbocd.cli", *command, *more],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 2
    assert "--backend dask and --scheduler ADDRESS go together" in " ".join(done.stderr.split())
    assert list(tmp_path.iterdir()) == []


def test_a_scheduler_that_is_not_there_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody else can answer here
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        import dask

        with (
            dask.config.set({"distributed.comm.timeouts.connect": "300ms"}),
            pytest.raises(ClusterError, match=f"scheduler {address} cannot be reached"),
            spread("dask", address),
        ):
            pass
    with pytest.raises(ValueError, match="scheduler is for the backend 'dask'"), spread("processes", address):
        pass
    with pytest.raises(ValueError, match="backend must be 'processes' or 'dask', not 'ray'"), spread("ray"):
        pass
