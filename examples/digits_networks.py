"""Is a handwritten digit odd? Choose a small or a large network for each image.

Run from anywhere: `python examples/digits_networks.py [folder]`. Needs mfbocd[real,plot].
"""

import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

import mfbocd as mf
from mfbocd import calibrate

out = Path(sys.argv[1] if len(sys.argv) > 1 else "out/examples")
out.mkdir(parents=True, exist_ok=True)

# Train networks with 1 and 128 hidden units on half of the images; a quarter is for zeta, a quarter for the stream.
images, digit = load_digits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(digit))
images, odd = images[order] / 16.0, digit[order] % 2
networks = {
    name: MLPClassifier((units,), activation="tanh", learning_rate_init=0.01, max_iter=1000, random_state=0)
    for name, units in (("small", 1), ("large", 128))
}
for network in networks.values():
    network.fit(images[:900], odd[:900])

# zeta: the information of the small network's labels relative to the large one's, on images not used in training.
labels = {name: network.predict(images[900:1350]) for name, network in networks.items()}
zeta = calibrate.bernoulli_zeta(labels["large"], labels["small"], method="information")
print(f"zeta of the small network: {zeta.value:.2f} ({zeta.low:.2f} to {zeta.high:.2f})")

# The observer of a fidelity runs its network on an image; the cost is the number of multiply-adds.
ran = dict.fromkeys(networks, 0)


def reader(name: str) -> mf.Fidelity:
    """Return a network as a fidelity that counts its runs."""
    network = networks[name]

    def observe(image: np.ndarray) -> float:
        ran[name] += 1
        return float(network.predict(image[None])[0])

    cost = sum(weights.size for weights in network.coefs_)
    return mf.Fidelity(name, zeta=zeta.value if name == "small" else 1.0, cost=cost, observe=observe)


detector = mf.Detector(
    mf.Bernoulli(1, 1), [reader("small"), reader("large")], hazard=1 / 100, policy=mf.Budget(share=0.3)
)

# The stream: mostly even digits, then mostly odd ones, then a mixture. Only the chosen network runs.
rng = np.random.default_rng(1)
theta = np.repeat([0.1, 0.9, 0.5], 100)
test, label = images[1350:], odd[1350:]
steps = []
for p in theta:
    wanted = int(rng.random() < p)
    image = test[rng.choice(np.flatnonzero(label == wanted))]
    step = detector.step(image)
    steps.append(step)
    if step.alarm:
        print(f"tick {step.tick}: changed at {step.changed_at}, P = {step.confidence:.2f}")

trace = mf.Trace.of(steps, detector)
alone = detector.fidelities[-1].cost_of() * len(steps)
print(f"runs: {ran}; {1 - trace.spent / alone:.0%} of the large network's multiply-adds saved")
trace.plot(unit="odd", truth=theta, changes=[100, 200]).savefig(out / "digits_networks.png", dpi=150)
print(f"Wrote {out / 'digits_networks.png'}")
