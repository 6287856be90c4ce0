"""Plots of a trace with matplotlib (extra ``plot``): `figure` is the standard figure, the others are its panels.

Examples
--------
>>> import mfbocd as mf
>>> detector = mf.Detector(mf.Gaussian(0, 9, 1), hazard=0.01)
>>> trace = mf.run(detector, [0.1, -0.3, 0.2, 6.0, 6.1], detail=True)
>>> picture = mf.plots.figure(trace, unit="m", xlabel="reading")
>>> [axis.get_ylabel() for axis in picture.axes]
['reading (m)', 'run length (ticks)', 'probability']
>>> from tempfile import TemporaryDirectory
>>> with TemporaryDirectory() as folder:
...     picture.savefig(f"{folder}/trace.png")
"""

from .panels import changes, data, gains, run_length, spend
from .standard import figure

__all__ = ["changes", "data", "figure", "gains", "run_length", "spend"]
