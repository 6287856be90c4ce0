"""Annotated real series (Turing Change Point Dataset): covering and F1, next to published results on the same series.

Scores are those of van den Burg and Williams (2020, arXiv:2003.06222), with a margin of 5 for F1. Every published row
is of a method that looks ahead: the benchmark standardizes each series as a whole before any method sees it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .common import Cache, Marks, covering, data_folder, error, f1, markdown, yes
from .methods import Array, Method, none

PUBLISHED = ("bocpd", "bocpdms", "rbocpdms", "binseg", "pelt", "amoc", "ecp", "zero")
# Default settings, covering / F1 per series: analysis/output/scores of alan-turing-institute/TCPDBench (MIT).
# A method for one column has no result on run_log, which has two.
_TABLE = """
brent_spot          .5859/.5208 .2650/.2393 .5038/.3213 .6268/.4834 .6266/.4647 .4230/.2718 .3872/.4778 .2658/.3146
businv              .4631/.2703 .4589/.3704 .5289/.2381 .5616/.3704 .6028/.3704 .5736/.4545 .3108/.3011 .4609/.5882
children_per_woman  .7583/.6368 .4272/.3366 .7622/.4318 .7983/.6175 .7983/.6175 .7983/.6175 .3969/.3485 .4291/.5075
gdp_iran            .5202/.6222 .5796/.4915 .5796/.3946 .4773/.4915 .4773/.4915 .4840/.4915 .5826/.6517 .5826/.6517
gdp_japan           .5780/.8000 .6450/.4706 .7767/.4706 .6539/.6154 .6539/.6154 .6539/.6154 .8021/.8889 .8021/.8889
global_co2          .6396/.7536 .7315/.4583 .7449/.4583 .7482/.9286 .6377/.7536 .7431/.9286 .5349/.7536 .7583/.8462
jfk_passengers      .5412/.4368 .8309/.5588 .6679/.2957 .8393/.7755 .8393/.7755 .8393/.7755 .4380/.4368 .6298/.7234
quality_control_1   .8869/.8000 .9898/.6667 .9860/.6667 .9924/1.000 .9924/1.000 .9924/1.000 .6198/.6667 .5031/.6667
quality_control_2   .9272/1.000 .9209/.6667 .9216/.6667 .9223/1.000 .9223/1.000 .9223/1.000 .9265/1.000 .6383/.7500
quality_control_3   .9967/1.000 .9766/.6667 .9902/.6667 .9956/1.000 .9956/1.000 .9956/1.000 .9967/1.000 .5003/.6667
quality_control_4   .5114/.6575 .6701/.4384 .7331/.3596 .5176/.8727 .5378/.7263 .5629/.8095 .2572/.3932 .6727/.7805
quality_control_5   1.000/1.000 .9938/.5000 .9938/.5000 1.000/1.000 1.000/1.000 1.000/1.000 1.000/1.000 1.000/1.000
run_log             .8154/1.000 .3868/.4752 .5845/.6599 -           -           -           .6568/.7920 .3035/.4456
shanghai_license    .8558/.7132 .6157/.4912 .7298/.3256 .9197/.8679 .9197/.8679 .9197/.8679 .5177/.6977 .5471/.6364
unemployment_nl     .4951/.6834 .5698/.5924 .5385/.4949 .6692/.8764 .6484/.7730 .5066/.5663 .4704/.6203 .5066/.5663
well_log            .7763/.7965 .7873/.7971 .6612/.5167 .6954/.5342 .6786/.5546 .4528/.2792 .6012/.8183 .2246/.2370
"""


def published() -> dict[str, dict[str, tuple[float, float]]]:
    """Return the published (covering, F1) of each method, by series."""
    out: dict[str, dict[str, tuple[float, float]]] = {name: {} for name in PUBLISHED}
    for line in _TABLE.split("\n")[1:-1]:
        series, *cells = line.split()
        for name, cell in zip(PUBLISHED, cells, strict=True):
            if cell != "-":
                cover, f = cell.split("/")
                out[name][series] = (float(cover), float(f))
    return out


def load(folder: Path) -> dict[str, tuple[Array, list[set[int]]]]:
    """Return each series as it was recorded, (T, d), with the marks of its annotators."""
    marks = json.loads((folder / "annotations.json").read_text())
    out = {}
    for path in sorted(folder.glob("*.json")):
        loaded = json.loads(path.read_text())
        if "series" in loaded:
            x = np.array([s["raw"] for s in loaded["series"]], dtype=float).T
            out[loaded["name"]] = (x, [set(m) for m in marks[loaded["name"]].values()])
    return out


def evaluate(method: Method, x: Array, marks: Marks, cache: Cache) -> tuple[float, float]:
    """Return covering and F1 of the changes that a method reports in the first column."""
    found = [alarm.changed_at for alarm in cache.detect(method, np.ascontiguousarray(x[:, 0]))]
    return covering(marks, found, len(x)), f1(marks, found)


def difference(a: Array, b: Array) -> str:
    """Return the mean of the paired differences and its standard error."""
    gap = a - b
    return f"{gap.mean():+.3f} ({error(gap):.3f})"


def report(methods: Sequence[Method], cache: Cache) -> None:
    """Print the scores of methods, and their differences to published rows on the same series."""
    loaded = load(data_folder("tcpd"))
    rows: dict[str, dict[str, tuple[float, float]]] = {}
    ahead: dict[str, str] = {}
    for method in [*methods, none()]:
        rows[method.name] = {name: evaluate(method, x, marks, cache) for name, (x, marks) in loaded.items()}
        ahead[method.name] = yes(method.looks_ahead)
        cache.save()
    for name, known in published().items():
        if name != "zero":  # the same as none, which the tests check
            rows[f"{name}, published"] = {s: known[s] for s in loaded if s in known}
            ahead[f"{name}, published"] = "yes"
    first = rows[methods[0].name]
    base = rows["none"]
    table = []
    for label, result in rows.items():
        names = [s for s in loaded if s in result]
        mine, theirs = np.array([first[s] for s in names]), np.array([result[s] for s in names])
        nothing = np.array([base[s] for s in names])
        cells = [f"{v:.3f}" for v in theirs.mean(axis=0)]
        ours = [f"{v:.3f}" for v in mine.mean(axis=0)]
        gaps = [difference(theirs[:, j], nothing[:, j]) if label != "none" else "-" for j in (0, 1)]
        lead = [difference(mine[:, j], theirs[:, j]) if label != methods[0].name else "-" for j in (0, 1)]
        row = [label, ahead[label], str(len(names)), " / ".join(cells), " / ".join(gaps)]
        table.append([*row, " / ".join(ours), " / ".join(lead)])
    first_name = methods[0].name
    print(f"\n### TCPD: covering / F1 on {len(loaded)} series; differences are paired (standard error)\n")
    header = ["method", "looks ahead", "series", "covering / F1", "minus none", f"{first_name}, same series"]
    print(markdown([*header, f"{first_name} minus this"], table))
    print(
        "\nOur rows and the peers use the first column. Published rows are the defaults of the benchmark, which "
        "standardizes each series as a whole; per-series results are known for all of them."
    )
    print("\n### TCPD by series: covering / F1\n")
    shown = [*(m.name for m in methods), "none", "bocpd, published", "binseg, published"]

    def cell(label: str, s: str) -> str:
        return " / ".join(f"{v:.3f}" for v in rows[label][s]) if s in rows[label] else "-"

    print(markdown(["series", *shown], ([s, *(cell(label, s) for label in shown)] for s in loaded)), flush=True)
