"""A simulated sensor for `mfbocd drive`: one JSON request per line on stdin, one JSON response per line on stdout.

Run it as `mfbocd drive -c examples/walk.toml -- python examples/sensor.py`. It has 100 readings; the speed changes at
tick 60. A real sensor would read the requested device instead.
"""

import json
import random
import sys

NOISE = {"imu": 3.2, "gps": 1.0}

rng = random.Random(1)
for line in sys.stdin:
    request = json.loads(line)
    if request["tick"] == 100:
        break  # exit code 0: no more readings
    speed = 0.0 if request["tick"] < 60 else 5.0
    print(json.dumps({"x": round(rng.gauss(speed, NOISE[request["fidelity"]]), 3)}), flush=True)
