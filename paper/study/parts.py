"""Long work in parts: spread over processes, shown on a bar, kept on disk, so that an interrupted run resumes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

Job = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function at the top of a module, and its arguments; it returns what JSON can hold."""


class ClusterError(RuntimeError):
    """A Dask cluster that cannot do the work: it is not there, or has other code."""


@cache
def sources() -> str:
    """A digest of mfbocd's own code: a part that other code made is made anew."""
    root = Path(__file__).resolve().parent.parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@contextmanager
def spread(backend: str = "processes", scheduler: str | None = None) -> Iterator[None]:
    """Where `finish` does its work while this lasts: processes of this machine, or the workers of a Dask cluster.

    >>> with spread("processes"):
    ...     pass
    >>> with spread("dask"):
    ...     pass
    Traceback (most recent call last):
    ...
    ValueError: scheduler must be the address of a Dask scheduler, such as tcp://host:8786, not None
    """
    if backend not in ("processes", "dask"):
        raise ValueError(f"backend must be 'processes' or 'dask', not {backend!r}")
    if backend == "processes":
        if scheduler is not None:
            raise ValueError(f"scheduler is for the backend 'dask', not 'processes': {scheduler!r}")
        yield
        return
    if not scheduler:
        raise ValueError(
            f"scheduler must be the address of a Dask scheduler, such as tcp://host:8786, not {scheduler!r}"
        )
    try:
        from distributed import Client
    except ImportError:
        raise ImportError("the backend 'dask' needs dask and distributed: pip install 'mfbocd[dask]'") from None
    from joblib import parallel_config

    try:
        client: Any = Client(scheduler)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise ClusterError(f"scheduler {scheduler} cannot be reached: {error}") from None
    with client:
        theirs = client.run(sources)
        other = sorted(name for name, digest in theirs.items() if digest != sources())
        if other:
            # A part is kept under this machine's sources; made by others it would be somebody else's number.
            raise ClusterError(f"scheduler {scheduler}: worker {other[0]} has another mfbocd than this machine")
        with parallel_config(backend="dask"):
            yield


def finish(
    work: Mapping[str, Job], folder: Path, setting: Mapping[str, Any], *, jobs: int = -1, progress: bool = True
) -> dict[str, Any]:
    """The result of every job, by name; those that `folder` already holds for the same setting are not run again.

    `setting` is whatever else a result depends on. A part is written whole or not at all, and by this process:
    workers elsewhere (`spread`) need not see `folder`.

    >>> import math, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     finish({"four": (math.sqrt, (16.0,))}, Path(folder), {"seed": 1}, jobs=1, progress=False)
    {'four': 4.0}
    """
    from joblib import Parallel, delayed
    from tqdm import tqdm

    folder.mkdir(parents=True, exist_ok=True)
    mark = json.loads(json.dumps({"sources": sources(), **setting}))
    todo = {name: job for name, job in work.items() if not _made(folder, name, mark)}
    with tqdm(total=len(work), initial=len(work) - len(todo), unit="part", disable=not progress) as bar:
        parallel = Parallel(n_jobs=jobs, return_as="generator_unordered")
        for name, result in parallel(delayed(_make)(name, job) for name, job in todo.items()):
            _keep(folder, name, mark, result)
            bar.update()
    return {name: json.loads(_path(folder, name).read_text())["result"] for name in work}


def _path(folder: Path, name: str) -> Path:
    return folder / f"{name}.json"


def _made(folder: Path, name: str, mark: dict[str, Any]) -> bool:
    path = _path(folder, name)
    return path.exists() and json.loads(path.read_text())["setting"] == mark


def _make(name: str, job: Job) -> tuple[str, Any]:
    function, arguments = job
    return name, function(*arguments)


def _keep(folder: Path, name: str, mark: dict[str, Any], result: Any) -> None:
    path = _path(folder, name)
    part = path.with_suffix(".part")
    part.write_text(json.dumps({"setting": mark, "result": result}))
    part.rename(path)
