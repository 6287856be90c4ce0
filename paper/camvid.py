"""The CamVid video: whether a fence is in view, seen by a small and a large segmentation network."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mfbocd.calibrate import decision_operations

from .camvid_figure import Shown, figure
from .camvid_page import caption, changes, claims, engines_differ, headline, protocol, summary, sums
from .camvid_runs import HIGH, LOW, MEASURES, RATE, Told, follow
from .scene import Scene, shipped_scene
from .segmentation import FENCE, TAKES, given_scene, load, mask, paired, picture
from .single import Engine
from .target import Number, Options, Result, Row, Target, save


def run(options: Options) -> Result:
    """From the shipped table, or from frames, labels and networks where they are given."""
    own = bool(options.given)
    scene = given_scene(options) if own else shipped_scene()
    engines: list[Engine] = ["library", "as published"]
    if options.as_published:
        engines.reverse()
    told = {engine: follow(scene, options, engine) for engine in engines}
    shown = engines[0]
    stem = "camvid"
    columns = [(HIGH, "high fidelity only"), (LOW, "low fidelity only"), (RATE, "multi-fidelity, the paper's rule")]
    plays = [(title, told[shown].plays[name]) for name, title in columns]
    strip, wanted = strip_of(scene, options) if own else ((), -1)
    save(figure(scene, plays, shown, strip, wanted), options, stem)
    rows = [] if own else arithmetic()
    rows += deciding(scene)
    for engine in engines:
        extra = {"low": "share at low fidelity", "spent": f"cost, {scene.unit}"} if engine == shown else {}
        rows += rows_of(told[engine], engine, extra | MEASURES)
    sections = [
        ("All runs beside each other", summary(scene, told[shown], shown)),
        ("Which labelled changes are found", changes(scene, told[shown], shown)),
        ("What the paper says, and what came out", claims(told[shown])),
    ]
    if not own:
        sections.append(("The paper's sums", sums(costs_behind())))
    sections.append(("As published", engines_differ(told)))
    return Result(
        headline=headline(told[shown]),
        protocol=protocol(scene, told[shown], options),
        rows=rows,
        figures=[(stem, caption(scene, shown, own))],
        sections=sections,
    )


def arithmetic() -> list[Row]:
    """The paper's totals in billions of flops, from each set of costs a frame that it prints."""
    printed = {"all low": "3333", "all high": "6303", "85 low, 86 high": "4827"}
    sources = {
        "19.48 and 36.86 (its table)": (19.48, 36.86, 36.86),
        "19.48 and 36.89 (its text)": (19.48, 36.89, 36.89),
        "19.5, 36.9 and 36.7 (its sums)": (19.5, 36.9, 36.7),
    }
    rows = [
        Row(f"171 frames, {kind}, GFLOP", Number(total), Number.printed(printed[kind]), keys={"run": source})
        for source, costs in sources.items()
        for kind, total in totals(*costs).items()
    ]
    rows.append(Row("cost of high / low", Number(36.7 / 19.5), Number.printed("1.9"), keys={"run": "36.7 / 19.5"}))
    rows.append(Row("zeta of low", Number(1 - (0.723 - 0.674)), Number.printed("0.95"), keys={"run": "mean IoU"}))
    return rows


def totals(low: float, high: float, mixed: float | None = None) -> dict[str, float]:
    """Of 171 frames at low, at high, and 85 at low with 86 at high (which may be counted at another cost).

    >>> {kind: round(total, 1) for kind, total in totals(19.5, 36.9, 36.7).items()}
    {'all low': 3334.5, 'all high': 6309.9, '85 low, 86 high': 4813.7}
    """
    both = 85 * low + 86 * (high if mixed is None else mixed)
    return {"all low": 171 * low, "all high": 171 * high, "85 low, 86 high": both}


def costs_behind() -> list[tuple[float, float]]:
    """The costs of two decimals, within 0.2 of the printed ones, that round to all three of the paper's totals."""
    tried = [(round(19.28 + i / 100, 2), round(36.66 + j / 100, 2)) for i in range(41) for j in range(41)]
    return [pair for pair in tried if [round(t) for t in totals(*pair).values()] == [3333, 6303, 4827]]


def deciding(scene: Scene) -> list[Row]:
    """Operations of all decisions together, by the paper's formula and as they should be counted."""
    ticks = len(scene.table)
    once = sum(decision_operations(t) for t in range(ticks))
    both = sum(decision_operations(t, fidelities=2) for t in range(1, ticks + 1))
    theirs = Number.printed("465291") if ticks == 171 else None
    rows = [Row("flops of deciding", Number(once, text=str(once)), theirs, keys={"run": "one fidelity, 32 t + 1"})]
    if theirs is not None:
        billions = Number.printed("0.00046")
        rows.append(Row("GFLOP of deciding", Number(once / 1e9), billions, keys={"run": "one fidelity, 32 t + 1"}))
    rows.append(Row("flops of deciding", Number(both, text=str(both)), keys={"run": "both fidelities"}))
    return rows


def rows_of(told: Told, engine: Engine, fields: Mapping[str, str]) -> list[Row]:
    """Every run of one engine; `fields` of `Score`, and what they are called."""
    rows = []
    for field, what in fields.items():
        for name, one in told.scores.items():
            if not (name == HIGH and field in MEASURES):
                rows.append(Row(what, Number(getattr(one, field)), engine=engine, keys={"run": name}))
        for name, runs in told.coins.items():
            rows.append(Row(what, Number.mean_of(runs[field]), engine=engine, keys={"run": name}))
            if field in MEASURES:
                spread = Number(float(runs[field].std(ddof=1)))
                rows.append(Row(f"{what}, sd of one run", spread, engine=engine, keys={"run": name}))
    return rows


def strip_of(scene: Scene, options: Options, count: int = 6) -> tuple[list[Shown], int]:
    """Frames around the labelled change nearest the middle, every network's mask of them, and the class they show."""
    known = options.given
    wanted = int(known.get("model-class", known.get("label-class", FENCE)))
    frames, _ = paired(Path(known["frames"]), Path(known["labels"]))
    by_stem = {path.stem: path for path in frames}
    middle = len(scene.frame) // 2
    at = min(scene.changes, key=lambda t: abs(t - middle), default=middle)
    first = max(0, min(at - count // 2, len(scene.frame) - count))
    low, high = (load(Path(known[name])) for name in ("low-model", "high-model"))
    shown = []
    for tick in range(first, min(first + count, len(scene.frame))):
        image = picture(by_stem[scene.frame[tick]])
        shown.append(Shown(tick, image, mask(high, image), mask(low, image)))
    return shown, wanted


TARGET = Target(
    name="camvid",
    paper="fig:camvid and its costs",
    title="Fences in a driving video",
    run=run,
    takes=TAKES,
)
