"""Long work in parts: run in parallel, with a progress bar, kept on disk so that an interrupted run resumes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed, parallel_config
from tqdm import tqdm

import mfbocd

Job = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function at the top of a module, and its arguments; it returns what JSON can hold."""


class ClusterError(RuntimeError):
    """A Dask cluster that cannot do the work: not reachable, or with other code."""


@cache
def sources() -> str:
    """A digest of the code of mfbocd and of this package: parts computed by other code are computed again."""
    digest = hashlib.sha256()
    for root in (Path(mfbocd.__file__).resolve().parent, Path(__file__).resolve().parents[1]):
        for path in sorted(root.rglob("*.py")):
            digest.update(path.relative_to(root).as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@contextmanager
def cluster(scheduler: str | None) -> Iterator[None]:
    """Within this context `finish` uses the workers of a Dask cluster; with None, processes of this machine."""
    if scheduler is None:
        yield
        return
    from distributed import Client

    try:
        client: Any = Client(scheduler)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise ClusterError(f"scheduler {scheduler} cannot be reached: {error}") from None
    with client:
        digests = client.run(sources)
        other = sorted(name for name, digest in digests.items() if digest != sources())
        if other:
            # parts are stored under this machine's digest, so other code must not compute them
            raise ClusterError(f"scheduler {scheduler}: worker {other[0]} has another mfbocd than this machine")
        with parallel_config(backend="dask"):
            yield


def finish(
    work: Mapping[str, Job], folder: Path, setting: Mapping[str, Any], *, jobs: int = -1, progress: bool = True
) -> dict[str, Any]:
    """The result of every job, by name; jobs whose result is in `folder` for the same setting are not run again.

    `setting` is everything else a result depends on. This process writes the parts, each one whole or not at all:
    the workers of a `cluster` need no access to `folder`.

    >>> import math, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     finish({"four": (math.sqrt, (16.0,))}, Path(folder), {"seed": 1}, jobs=1, progress=False)
    {'four': 4.0}
    """
    folder.mkdir(parents=True, exist_ok=True)
    mark = json.loads(json.dumps({"sources": sources(), **setting}))
    todo = {name: job for name, job in work.items() if not _done(folder / f"{name}.json", mark)}
    with tqdm(total=len(work), initial=len(work) - len(todo), unit="part", disable=not progress) as bar:
        parallel = Parallel(n_jobs=jobs, return_as="generator_unordered")
        for name, result in parallel(delayed(_run)(name, job) for name, job in todo.items()):
            part = folder / f"{name}.part"
            part.write_text(json.dumps({"setting": mark, "result": result}))
            part.rename(folder / f"{name}.json")
            bar.update()
    return {name: json.loads((folder / f"{name}.json").read_text())["result"] for name in work}


def _done(path: Path, mark: dict[str, Any]) -> bool:
    return path.exists() and json.loads(path.read_text())["setting"] == mark


def _run(name: str, job: Job) -> tuple[str, Any]:
    function, arguments = job
    return name, function(*arguments)
