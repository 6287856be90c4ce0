"""``python -m benchmarks.accuracy``: accuracy on simulated and annotated series, as Markdown."""

from __future__ import annotations

import argparse

from . import nab, score_zoo, tcpd, tssb, zoo
from .common import Cache, MissingDataError, markdown, yes
from .methods import select

PARTS = ("zoo", "tcpd", "nab", "tssb")
QUICK, FULL = 5, 20
"""Seeds per kind."""


def main() -> None:
    """Run the benchmarks that are named."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=__doc__)
    parser.add_argument("part", nargs="?", default="all", choices=[*PARTS, "all"])
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} seeds per kind instead of {FULL}, fewer files")
    parser.add_argument("--seeds", choices=["design", "judge"], default="design", help="seeds of the zoo")
    parser.add_argument("--count", type=int, help="number of seeds per kind, at most 50")
    parser.add_argument("--ticks", type=int, default=zoo.TICKS, help="length of the series of the zoo")
    parser.add_argument("--rate", type=float, help="false alarms per 1,000 ticks at which peers are compared")
    parser.add_argument("--kinds", help="kinds of the zoo separated by commas, or quiet for all without a change")
    parser.add_argument("--methods", help="names separated by commas; the first is compared with the others")
    options = parser.parse_args()
    methods = select(options.methods)
    cache = Cache()
    count = options.count or (QUICK if options.quick else FULL)
    few = 8 if options.quick else None
    print("### Methods\n")
    about = ([m.name, yes(m.looks_ahead), yes(m.online), m.note] for m in methods)
    print(markdown(["method", "looks ahead", "online", "what it uses"], about), flush=True)
    for part in PARTS if options.part == "all" else [options.part]:
        try:
            if part == "zoo":
                seeds = (zoo.DESIGN if options.seeds == "design" else zoo.JUDGE)[:count]
                score_zoo.report(methods, seeds, cache, options.ticks, options.rate, _kinds(options.kinds))
            elif part == "tcpd":
                tcpd.report(methods, cache)
            elif part == "nab":
                nab.report(nab.scorers(), few)
            else:
                tssb.report([m for m in methods if m.name != "BinSeg"], cache, few)  # it takes minutes per series
        except MissingDataError as error:
            print(f"\nSkipped {error}.", flush=True)


def _kinds(names: str | None) -> tuple[str, ...] | None:
    """Return the kinds of the zoo with these names; None, for all of them, by default."""
    return None if names is None else zoo.QUIET if names == "quiet" else tuple(names.split(","))


if __name__ == "__main__":
    main()
