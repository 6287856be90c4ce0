"""tab:mimii and its figures: machine sounds, from the ToyCar scores or from a folder of WAV clips."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import mimii_figures as figures
from .autoencoders import EPOCHS, LARGE, SMALL, UPDATES, machine, scores
from .machines import Fidelities, Machine, fidelities, streams, toycar
from .mimii_page import ENGINES, ONE_WINDOW, TOYCAR, carries_over, compact, headline, machines_table, protocol
from .mimii_rows import SHARES, TICKS, Played, more_rows, table_rows
from .page import to_csv
from .sound import folders
from .study.parts import Job
from .switching import play
from .target import Options, Result, Target, save


def run(options: Options) -> Result:
    """The whole protocol: thresholds, zeta, streams, rules, scores."""
    trials, tuning = options.count(500, 60), 16 if options.quick else 50
    clips = "clips" in options.given
    for name in ("low-model", "high-model"):
        if name in options.given and not clips:
            raise ValueError(f"{name} needs clips: the ToyCar scores were made by one network")
    setting: dict[str, Any] = {"trials": trials, "tuning": tuning, "ticks": TICKS}
    if clips:
        machines, about, mark = from_clips(options)
        setting |= mark
        few: list[Machine] = []
    else:
        machines, few = ([toycar(i + 1, w, SHARES[i], i) for i in range(4)] for w in (4, 1))
        about = TOYCAR
    work: dict[str, Job] = {}
    for tag, group, as_published in _runs(machines, few, options.as_published):
        for each in group:
            name = f"{tag}-{each.name.replace('/', '-')}"
            work[name] = (play, (each, trials, tuning, TICKS, options.seed, as_published))
    done = options.finish(work, setting)
    main, other, one = (
        [Played(each, done[f"{tag}-{each.name.replace('/', '-')}"]) for each in group]
        for tag, group, _ in _runs(machines, few, options.as_published)
    )
    engines = ("as published", "library") if options.as_published else ("library", "as published")
    found = [fidelities(each) for each in machines]
    rows = table_rows(main, engines[0])
    more = [*more_rows(other, engines[1], "as above"), *more_rows(one, engines[0], "1 window")]
    options.out.mkdir(parents=True, exist_ok=True)
    to_csv(options.out / "mimii-more.csv", more)
    sections = [("What carries over", carries_over(main)), ("The machines", machines_table(machines, found))]
    if one:
        sections.append(("One window of 196", f"{ONE_WINDOW}\n\n{compact(one)}"))
    sections.append((f"The other engine: {engines[1]}", f"{ENGINES}\n\n{compact(other)}"))
    return Result(
        headline=headline(main, options.as_published, clips),
        protocol=[*about, *protocol(trials, tuning, options)],
        rows=rows,
        figures=_figures(options, main, found),
        sections=sections,
    )


def _runs(machines: list[Machine], few: list[Machine], as_published: bool) -> list[tuple[str, list[Machine], bool]]:
    """What is run: the table, the same by the other engine, and one window."""
    return [("main", machines, as_published), ("other", machines, not as_published), ("one", few, as_published)]


def from_clips(options: Options) -> tuple[list[Machine], list[str], dict[str, Any]]:
    """Machines scored from the user's WAV clips, what there is to say of them, and what the scores depend on."""
    own = [options.given.get(name) for name in ("low-model", "high-model")]
    if (own[0] is None) != (own[1] is None):
        raise ValueError("low-model and high-model go together: give both, or neither to have two trained here")
    models = None if own[0] is None or own[1] is None else (own[0], own[1])
    found = folders(options.given["clips"], (4, 2) if models is None else (2, 2))
    digest = hashlib.sha256()
    for path in (*(clip for each in found for clip in each.clips), *(models or ())):
        digest.update(f"{path.resolve()} {path.stat().st_size} {path.stat().st_mtime_ns}\n".encode())
    mark = {"files": digest.hexdigest()}
    most = 4_000 if options.quick else 20_000
    work: dict[str, Job] = {f"scores-{each.name.replace('/', '-')}": (scores, (each, models, most)) for each in found}
    done = list(options.finish(work, mark).values())
    kinds = [each.name.partition("/")[0] for each in found]
    paper = [i for i, kind in enumerate(kinds) if "slider" in kind]
    at = {i: k for k, i in enumerate(paper)} if len(paper) == 4 else {}
    machines = [
        machine(each, scored, SHARES[at[i]] if i in at else float(np.mean(SHARES)), at.get(i))
        for i, (each, scored) in enumerate(zip(found, done, strict=True))
    ]
    macs = " and ".join(f"{m:,}" for m in done[0]["macs"])
    if models is None:
        networks = (
            f"Two scikit-learn autoencoders a machine, hidden units {SMALL[0]} and {'-'.join(map(str, LARGE))}, "
            f"learnt from every second normal clip (at most {most:,} windows, Adam, at least {EPOCHS} passes and "
            f"{UPDATES} updates, random_state 0); those clips serve nothing else."
        )
    else:
        networks = f"The autoencoders are {models[0].name} (low) and {models[1].name} (high), as given."
    about = [
        f"{sum(len(each.clips) for each in found)} WAV clips of {len(found)} machines, each an id of the folder, "
        f"first channel, {done[0]['rate']:,} samples a second.",
        "Log-mel spectrograms (1024 samples a frame, 512 apart, 128 mels, decibels), five frames an input, in "
        "numpy and scipy: librosa would weigh more than the thirty lines it saves.",
        networks,
        "A clip's windows are cut into 14 equal parts; a score is the mean squared reconstruction error of one, "
        "and the clip's is the median of the 14. The paper's scores lie in [0, 1]; only the threshold sees the "
        "scale.",
        f"A reading costs two flops for each of the network's multiply-adds ({macs} a window) and window.",
        "Four machines of a folder `slider` are held against the paper's slide rails in the order of their ids; "
        f"others against nothing, with a low-fidelity share of {np.mean(SHARES):.0%}.",
    ]
    return machines, about, mark


def _figures(options: Options, played: Sequence[Played], found: Sequence[Fidelities]) -> list[tuple[str, str]]:
    machines = [each.machine for each in played]
    drawn = [
        streams(m, told.readings, TICKS, range(options.seed + i, options.seed + i + 1))
        for i, (m, told) in enumerate(zip(machines, found, strict=True))
    ]
    made = {
        "mimii-scatter": (
            figures.scatter([m.name for m in machines], [dict(each.result) for each in played]),
            "Random (across) against information-based switching (up), a point a stream; under the line is better "
            "for information. The cross is the mean.",
        ),
        "mimii-thresholds": (
            figures.thresholds(machines, found),
            "False positive and false negative rates of the held-out clips against the threshold; dashed, the one "
            "chosen, where they are equal.",
        ),
        "mimii-examples": (
            figures.examples(machines),
            "Anomaly scores of five clips a machine, at both fidelities; dashed lines separate clips.",
        ),
        "mimii-readings": (
            figures.readings(machines, drawn),
            "One stream a machine after the thresholds; the truth is the black line.",
        ),
    }
    for stem, (figure, _) in made.items():
        save(figure, options, stem)
    return [(stem, caption) for stem, (_, caption) in made.items()]


TARGET = Target(
    name="mimii",
    paper="tab:mimii, fig:mimii_*",
    title="Machine sounds: four machines, two fidelities",
    run=run,
    takes=("clips", "low-model", "high-model"),
)
