"""Notebooks: ``python -m docs_tools.notebooks`` executes them, and MkDocs renders them as pages (`hooks`).

They are stored with their output, which the tests compare with that of a new execution.
"""

from __future__ import annotations

import base64
import json
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"
_LINK = re.compile(r"(\]\((?:[\w./-]+/)?[\w-]+)\.ipynb(#[\w-]+)?\)")


class Page(NamedTuple):
    """A notebook as Markdown, and the files of its pictures by name."""

    text: str
    pictures: dict[str, bytes]


def read(path: Path) -> dict[str, Any]:
    """Return a notebook as a dictionary."""
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return notebook


def page(notebook: dict[str, Any], name: str) -> Page:
    """Return a notebook as a page: prose, code as blocks, and output below each block.

    Parameters
    ----------
    notebook : dict
        The notebook, in format 4.
    name : str
        Beginning of the names of its pictures.

    Returns
    -------
    Page
        The page.

    Examples
    --------
    >>> print(page({"cells": [{"cell_type": "code", "source": ["1 + 1"], "outputs": [
    ...     {"output_type": "execute_result", "data": {"text/plain": ["2"]}}]}]}, "sum").text)
    ```python
    1 + 1
    ```
    <BLANKLINE>
    ```text
    2
    ```
    <BLANKLINE>
    """
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {})
            if "image/png" in data:
                picture = f"{name}-{len(pictures)}.png"
                pictures[picture] = base64.b64decode("".join(data["image/png"]))
                parts.append(f"![output of the cell above]({picture})")
            elif "text/html" in data:
                parts.append("".join(data["text/html"]))
            else:
                parts.append(f"```text\n{text_of(output)}\n```")
    return Page("\n\n".join(parts) + "\n", pictures)


def text_of(output: dict[str, Any]) -> str:
    """Return the text of an output of a cell."""
    if output["output_type"] == "error":
        return "\n".join(output["traceback"])
    return "".join(output.get("text") or output["data"]["text/plain"]).rstrip("\n")


def texts(notebook: dict[str, Any]) -> list[list[str]]:
    """Return the texts that each code cell prints or shows."""
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [[text_of(output) for output in cell["outputs"]] for cell in cells]


def execute(path: Path) -> dict[str, Any]:
    """Return a notebook with the output of a new execution, in its folder.

    Parameters
    ----------
    path : Path
        The notebook.

    Returns
    -------
    dict
        The executed notebook.

    Raises
    ------
    nbclient.exceptions.CellExecutionError
        If a cell raises an error.
    """
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    client = NotebookClient(
        notebook,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
        extra_arguments=["--log-level=ERROR"],  # the kernel warns that it listens on the loopback address
    )
    client.execute()
    done: dict[str, Any] = json.loads(nbformat.writes(notebook))  # type: ignore[no-untyped-call]
    for cell in done["cells"]:
        cell["metadata"] = {}  # times of execution
        if cell["cell_type"] == "code":
            cell["outputs"] = _joined(cell["outputs"])
    # versions and the name of the environment, which differ between machines
    done["metadata"] = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return done


def _joined(outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join adjacent outputs of one stream; a kernel splits them depending on the time they take."""
    joined: list[dict[str, Any]] = []
    for output in outputs:
        last = joined[-1] if joined else {}
        if output["output_type"] == "stream" and output["name"] == last.get("name"):
            joined[-1] = last | {"text": [*last["text"], *output["text"]]}
        else:
            joined.append(output)
    return joined


# --- events of MkDocs ----------------------------------------------------------------------------------------------


def on_files(files: Any, config: Any) -> Any:
    """Replace every notebook by a page and its pictures."""
    from mkdocs.structure.files import File

    for file in [file for file in files if file.src_uri.endswith(".ipynb")]:
        files.remove(file)
        folder, _, name = file.src_uri.removesuffix(".ipynb").rpartition("/")
        shown = page(read(Path(file.abs_src_path)), name)
        files.append(File.generated(config, f"{folder}/{name}.md", content=shown.text))
        for picture, content in shown.pictures.items():
            files.append(File.generated(config, f"{folder}/{picture}", content=content))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Let links to notebooks, which work in the repository, point to their pages."""
    return _LINK.sub(r"\1.md\2)", markdown)


def main(names: list[str]) -> None:
    """Execute notebooks, all by default, and store their output."""
    for path in [Path(name) for name in names] or sorted(FOLDER.glob("*.ipynb")):
        path.write_text(json.dumps(execute(path), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
