"""`mfbocd reproduce`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from .command_spread import spread, spread_options

FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.argument("name", required=False)
@click.option("--list", "listed", is_flag=True, help="List the targets and stop.")
@click.option("--trials", type=click.IntRange(2), help="Instead of each target's own number.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="First seed of the trials.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("out/paper"),
    show_default=True,
    help="Folder for figures, tables, pages and the parts a later run resumes from.",
)
@click.option("--jobs", type=int, default=-1, show_default=True, help="Processes; -1 uses every core.")
@click.option("--quick", is_flag=True, help="Fewer trials: under a minute a target.")
@click.option(
    "--as-published", is_flag=True, help="Behave as the paper's own code where it differs from its equations."
)
@click.option("--frames", type=FOLDER, help="camvid: folder of PNG or JPG frames, read in the order of their names.")
@click.option("--labels", type=FOLDER, help="camvid: folder of label images of the same names.")
@click.option("--low-model", type=FILE, help="camvid, mimii: the small network, TFLite or ONNX.")
@click.option("--high-model", type=FILE, help="camvid, mimii: the large network, TFLite or ONNX.")
@click.option("--label-class", type=int, help="camvid: class of the labels to look for; 7, fence, unless told.")
@click.option("--model-class", type=int, help="camvid: that class as the networks number it, if they differ.")
@click.option(
    "--label-floor",
    type=click.FloatRange(0.0, 1.0),
    help="camvid: the class is there where it covers more than this of a label; 0 unless told.",
)
@click.option("--clips", type=FOLDER, help="mimii: folder of WAV clips, machine/id/normal|abnormal.")
@spread_options
def reproduce(
    name: str | None,
    listed: bool,
    trials: int | None,
    seed: int,
    out: Path,
    jobs: int,
    quick: bool,
    as_published: bool,
    backend: str,
    scheduler: str | None,
    **given: Path | float | None,
) -> None:
    """Reproduce a table or figure of the paper: NAME, or `all` of them.

    Writes figures, a CSV and a page that puts the published numbers beside ours. Needs the extra `reproduce`.

    \b
    mfbocd reproduce --list
    mfbocd reproduce ablation-gaussian --quick
    mfbocd reproduce all
    """
    from . import NAMES, Options, target
    from .page import together, write

    if listed:
        for each in NAMES:
            found = target(each)
            click.echo(f"{each:20s}{found.paper:34s}{found.title}")
        return
    if name is None:
        raise click.UsageError(f"name a target, or `all`: {', '.join(NAMES)}")
    if name != "all" and name not in NAMES:
        raise click.BadParameter(f"{name!r} is none of {', '.join(NAMES)}, all", param_hint="NAME")
    own = {key.replace("_", "-"): path for key, path in given.items() if path is not None}
    if own and name == "all":
        raise click.UsageError(f"--{next(iter(own))} is for one target: name it instead of `all`")
    options = Options(out, trials, seed, jobs, quick, as_published)
    made = []
    for each in NAMES if name == "all" else (name,):
        found = target(each)
        unused = [key for key in own if key not in found.takes]
        if unused:
            raise click.UsageError(f"--{unused[0]} is not for {each}")
        mine = replace(options, out=out / each, given={key: own[key] for key in found.takes if key in own})
        click.echo(f"{each}: {found.title}", err=True)
        try:
            with spread(backend, scheduler):
                result = found.run(mine)
        except ImportError as error:
            raise click.ClickException(f"{error}; pip install 'mfbocd[reproduce]'") from None
        except (ValueError, OSError) as error:
            if not mine.given:
                raise
            raise click.ClickException(str(error)) from None  # of the user's own files
        page = write(found, result, mine)
        made.append((found, result, mine))
        click.echo(f"  wrote {page}", err=True)
    if name == "all":
        click.echo(str(together(out, made)))
    else:
        click.echo(page.read_text())
