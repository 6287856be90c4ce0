"""Load damaged bytes of saved detectors whose checksum is valid, and use what loads: run as a separate process.

Prints how many were refused, worked, or raised an error when used; a crash ends this process only.
"""

from __future__ import annotations

import collections
import json
import math
import random
import struct
import sys
import zlib
from typing import Any

import mfbocd as mf
from mfbocd._kernels import layout
from mfbocd.belief.pruning import DEFAULT
from mfbocd.detector.serialization import Loader

EXTREMES = (
    math.nan,
    math.inf,
    -math.inf,
    -1.0,
    0.0,
    1.0,
    1e300,
    -1e300,
    2.0**53,
    2.0**31,
    2.0**63,
    5e-324,
    0.5,
    1e-200,
)
ODD = (None, True, -1, 0, 2**53, 2**63, 10**400, 1.5, math.nan, math.inf, 1e300, "", "x", [], {}, [1, 2], {"a": 1})
FIDELITIES = [mf.Fidelity("low", 0.3, 1.0), mf.Fidelity("high", 1.0, 5.0)]


def saved() -> list[bytes]:
    """Detectors of several families and prunings, after some ticks."""
    models: list[mf.Model] = [
        mf.Gaussian(0, 9, 1),
        mf.GaussianUnknown(0, 1, 2, 1),
        mf.Bernoulli(1, 1),
        mf.Poisson(2, 1),
        mf.Gamma(2, 2, 1),
        mf.Binomial(9, 1, 1),
        mf.MultivariateGaussian([0, 0], 9, 1),
        mf.Trend(),
    ]
    prunings: list[Any] = [None, mf.Threshold(1e-4), mf.TopK(8), mf.Resample(8), DEFAULT]
    out = []
    for i, model in enumerate(models):
        for j, prune in enumerate(prunings):
            hazard = mf.Learned(points=3) if (i + j) % 3 == 0 else 0.05 if (i + j) % 3 == 1 else [0.1, 0.05, 0.02]
            guard = {"low": mf.calibrate.ShadowGuard(0.3, 7, "gaussian", noise_var=1.0)} if (i, j) == (0, 1) else None
            policy = mf.Budget(share=0.5, cap=(30, 8)) if j == 2 else mf.Net(0.1) if j == 3 else None
            fidelities = FIDELITIES
            if model.observe is None:  # models in Python: their gains are slow, and no index can crash them
                fidelities, policy = FIDELITIES[1:], mf.Always()
            detector = mf.Detector(
                model, fidelities, hazard, policy=policy, prune=prune, missing="skip", shadow=guard
            )
            for t in range((0, 1, 12, 40)[(i + j) % 4]):
                detector.update(reading(model, t), detector.choose())
            out.append(detector.to_bytes())
    return out


def reading(model: mf.Model, t: int) -> Any:
    x = float(t // 5 % 2) + isinstance(model, mf.Gamma)
    return x if model.dimension == 1 else [x] * model.dimension


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Return damaged bytes with a valid checksum."""
    (length,) = struct.unpack_from("<I", data, 8)
    facts, body = json.loads(data[12 : 12 + length]), bytearray(data[12 + length : -4])
    sizes = facts["arrays"]
    head = 8 * (sizes["hazard"] + sizes["numbers"])
    kind = rng.randrange(8)
    if kind <= 2:  # a number of the header
        where = head + 8 * rng.randrange(layout.HEAD)
        (old,) = struct.unpack_from("<d", body, where)
        struct.pack_into("<d", body, where, rng.choice((*EXTREMES, old + 1, old - 1, 2 * old, -old)))
    elif kind == 3:  # any number
        where = 8 * rng.randrange(len(body) // 8)
        struct.pack_into("<d", body, where, rng.choice(EXTREMES))
    elif kind == 4:  # any fact
        path = facts
        while True:
            key = rng.choice(list(path) if isinstance(path, dict) else range(len(path)))
            if not isinstance(path[key], (dict, list)) or not path[key] or rng.random() < 0.1:
                break
            path = path[key]
        path[key] = rng.choice(ODD)
    elif kind == 5:  # any bytes
        for _ in range(rng.randrange(1, 5)):
            body[rng.randrange(len(body))] = rng.randrange(256)
    elif kind == 6:  # shorter or longer
        cut = 8 * rng.randrange(len(body) // 8) if rng.random() < 0.7 else rng.randrange(len(body))
        body = body[:cut] if rng.random() < 0.5 else body + body[cut:]
    else:  # numbers in another order
        a, b = (8 * rng.randrange(len(body) // 8) for _ in range(2))
        body[a : a + 8], body[b : b + 8] = body[b : b + 8], body[a : a + 8]
    text = json.dumps(facts).encode()
    whole = data[:8] + struct.pack("<I", len(text)) + text + bytes(body)
    return whole + struct.pack("<I", zlib.crc32(whole))


def used(detector: mf.Detector) -> None:
    """Use a detector as any caller would."""
    detector.choose()
    for t in range(3):
        detector.update(reading(detector.model, t), detector.choose())
    detector.wait(2)
    if detector.model.observe is not None:
        detector.gains()
    detector.regime()
    detector.p_changed(5)
    mf.Detector.from_bytes(detector.to_bytes())


def main(cases: int, seed: int) -> None:
    rng = random.Random(seed)
    begun = saved()
    for data in begun:  # undamaged ones load and work
        used(mf.Detector.from_bytes(data))
    make = Loader(mf.Detector.from_bytes)
    found: collections.Counter[str] = collections.Counter()
    for case in range(cases):
        data = damaged(rng.choice(begun), rng)
        try:
            detector = (make if case % 4 else mf.Detector.from_bytes)(data)
        except ValueError:
            found["refused"] += 1
            continue
        try:
            used(detector)
        except (ValueError, ArithmeticError) as error:
            found["failed"] += 1
            print("failed", case, type(error).__name__, str(error)[:150], file=sys.stderr)
        else:
            found["worked"] += 1
    print(json.dumps(found))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
