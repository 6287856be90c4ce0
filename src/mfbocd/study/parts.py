"""Long work in parts: spread over processes, shown on a bar, kept on disk, so that an interrupted run resumes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

Job = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function at the top of a module, and its arguments; it returns what JSON can hold."""


@cache
def sources() -> str:
    """A digest of mfbocd's own code: a part that other code made is made anew."""
    root = Path(__file__).resolve().parent.parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def finish(
    work: Mapping[str, Job], folder: Path, setting: Mapping[str, Any], *, jobs: int = -1, progress: bool = True
) -> dict[str, Any]:
    """The result of every job, by name; those that `folder` already holds for the same setting are not run again.

    `setting` is whatever else a result depends on. A part is written whole or not at all.

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
        for _ in parallel(delayed(_make)(folder, name, mark, job) for name, job in todo.items()):
            bar.update()
    return {name: json.loads(_path(folder, name).read_text())["result"] for name in work}


def _path(folder: Path, name: str) -> Path:
    return folder / f"{name}.json"


def _made(folder: Path, name: str, mark: dict[str, Any]) -> bool:
    path = _path(folder, name)
    return path.exists() and json.loads(path.read_text())["setting"] == mark


def _make(folder: Path, name: str, mark: dict[str, Any], job: Job) -> None:
    function, arguments = job
    path = _path(folder, name)
    part = path.with_suffix(".part")
    part.write_text(json.dumps({"setting": mark, "result": function(*arguments)}))
    part.rename(path)
