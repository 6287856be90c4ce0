"""``python -m paper TARGET``: run targets, write their figures, tables and pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from .framework import ClusterError, Options, cluster, publish, write
from .targets import NAMES, load

FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
NEW = click.Path(file_okay=False, path_type=Path)


@click.command()
@click.argument("name", metavar="TARGET", required=False)
@click.option("--list", "listed", is_flag=True, help="List the targets and stop.")
@click.option("--quick", is_flag=True, help="Fewer trials: under a minute per target.")
@click.option(
    "--as-published", is_flag=True, help="Behave as the paper's own code where it differs from its equations."
)
@click.option("--trials", type=click.IntRange(2), help="Trials or streams; each target has its own default.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="First seed of the trials.")
@click.option(
    "--out",
    type=NEW,
    default=Path("out/paper"),
    show_default=True,
    help="Folder for figures, tables, pages and the parts from which a later run resumes.",
)
@click.option("--docs", type=NEW, help="Also update the pages and pictures in this documentation folder.")
@click.option("--jobs", type=int, default=-1, show_default=True, help="Processes; -1 uses every core.")
@click.option("--scheduler", metavar="ADDRESS", help="Use a Dask cluster; address such as tcp://host:8786.")
@click.option("--frames", type=FOLDER, help="camvid: folder of PNG or JPG frames, in the order of their names.")
@click.option("--labels", type=FOLDER, help="camvid: folder of label images of the same names.")
@click.option("--low-model", type=FILE, help="camvid, mimii: the small network, TFLite or ONNX.")
@click.option("--high-model", type=FILE, help="camvid, mimii: the large network, TFLite or ONNX.")
@click.option("--label-class", type=int, help="camvid: class of the labels to look for; default 7, fence.")
@click.option("--model-class", type=int, help="camvid: the networks' number of that class, if different.")
@click.option(
    "--label-floor",
    type=click.FloatRange(0.0, 1.0),
    help="camvid: the class counts as present if it covers more than this fraction of a label; default 0.",
)
@click.option("--clips", type=FOLDER, help="mimii: folder of WAV clips, machine/id/normal|abnormal.")
@click.option("--family", multiple=True, help="frontier, quickest: only this family of streams (may be repeated).")
def main(
    name: str | None,
    listed: bool,
    quick: bool,
    as_published: bool,
    trials: int | None,
    seed: int,
    out: Path,
    docs: Path | None,
    jobs: int,
    scheduler: str | None,
    **given: Any,
) -> None:
    """Run TARGET, or `all` targets of the page docs/paper.md.

    Writes figures, a CSV file and a page that compares the published numbers with ours.

    \b
    python -m paper --list
    python -m paper ablation-gaussian --quick
    python -m paper all --docs docs
    """
    if listed:
        for target in map(load, NAMES):
            click.echo(f"{target.name:20s}{target.paper:34s}{target.title}")
        return
    if name is None:
        raise click.UsageError(f"name a target, or `all`: {', '.join(NAMES)}")
    if name != "all" and name not in NAMES:
        raise click.BadParameter(f"{name!r} is none of {', '.join(NAMES)}, all", param_hint="TARGET")
    own = {key.replace("_", "-"): value for key, value in given.items() if value not in (None, ())}
    targets = [load(name)] if name != "all" else [each for each in map(load, NAMES) if each.page == "paper"]
    unused = [key for key in own if name == "all" or key not in targets[0].takes]
    if unused:
        raise click.UsageError(f"--{unused[0]} is not for {name}")
    for target in targets:
        options = Options(out / target.name, trials, seed, jobs, quick, as_published, given=own)
        click.echo(f"{target.name}: {target.title}", err=True)
        try:
            with cluster(scheduler):
                result = target.run(options)
        except ClusterError as error:
            raise click.ClickException(str(error)) from None
        except (ValueError, OSError) as error:
            if not own:
                raise
            raise click.ClickException(str(error)) from None  # about the user's own files
        page = write(target, result, options)
        click.echo(f"  wrote {page}", err=True)
        if docs is not None:
            click.echo(f"  wrote {publish(docs, target, result, options, NAMES)}", err=True)
    if name != "all":
        click.echo(page.read_text())


if __name__ == "__main__":
    main(prog_name="python -m paper")
